"""The code blocks of a page: what each is, and how all of them run in order.

A block of `python` runs in the namespace of its page, one of `sh` in bash; both in the page's
folder. A block with a title is written there under that name. A block titled "Output" is what the
block before it prints; one titled "Output, about" may differ in its numbers, by ten at most, since
accuracies depend on the processor. A comment before a block may say `<!-- not run: REASON -->`, or
`<!-- slow -->`: from there on, the page belongs to the slow tests.
"""

from __future__ import annotations

import linecache
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE, OutputChecker
from io import StringIO
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

from typer.testing import CliRunner

from favano.cli.app import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
RUN, SHOWN = ("python", "sh"), ("text", "json", "toml", "yaml")
OUTPUT, ABOUT = "Output", "Output, about"
NUMBER = re.compile(r"\d+(?:\.\d+)?")
BLOCK = re.compile(
    r"^(?P<margin> *)(?:<!-- (?P<mark>slow|not run: [^>]+) -->\n+ *)?"
    r"```(?P<language>\w*)(?: title=\"(?P<title>[^\"]+)\")?\n"
    r"(?P<code>.*?)^(?P=margin)```$",
    re.DOTALL | re.MULTILINE,
)


class Block(NamedTuple):
    """One fenced block."""

    language: str
    title: str
    code: str
    mark: str
    line: int  # of the page


class BlockFailed(AssertionError):
    """What is wrong with a block of a page, and where."""


def blocks_of(text: str) -> list[Block]:
    """All blocks of a page, in order."""
    blocks = []
    for match in BLOCK.finditer(text):
        line = text[: match.start("language")].count("\n") + 1
        language, title, mark = match["language"], match["title"] or "", match["mark"] or ""
        blocks.append(Block(language, title, dedent(match["code"]), mark, line))
    return blocks


def check_fences(text: str) -> None:
    """Every fence belongs to a block, whose language is one of a few."""
    fences, blocks = len(re.findall(r"^ *```", text, re.MULTILINE)), blocks_of(text)
    for block in blocks:
        if block.language not in (*RUN, *SHOWN):
            rule = f"need one of {', '.join((*RUN, *SHOWN))}"
            raise BlockFailed(f"line {block.line}: a block of {block.language!r}; {rule}")
    if fences != 2 * len(blocks):
        raise BlockFailed(f"{fences} fences make no {len(blocks)} blocks")


def quick_part(blocks: Sequence[Block]) -> list[Block]:
    """The blocks before the first that is slow."""
    slow = [block.mark == "slow" for block in blocks]
    return list(blocks[: slow.index(True)] if any(slow) else blocks)


def run_blocks(blocks: Sequence[Block], folder: Path, *, quick: bool = False) -> None:
    """Run all, or those before the first slow one, in a folder that is the working directory."""
    namespace: dict[str, object] = {"__name__": "page"}
    printed: str | None = None
    for block in quick_part(blocks) if quick else blocks:
        if block.mark.startswith("not run"):
            printed = None
            continue
        try:
            if block.title in (OUTPUT, ABOUT):
                _compare(printed, block)
            elif block.title:
                _write(block, blocks, folder)
            elif block.language in RUN:
                printed = _run(block, namespace, folder)
                if "untrained" in printed:
                    raise BlockFailed(f"a result on the page learnt nothing:\n{printed}")
        except Exception as error:
            raise BlockFailed(f"line {block.line}: {error}") from error


def _compare(printed: str | None, block: Block) -> None:
    if printed is None:
        raise BlockFailed("output of no block that was run")
    same = OutputChecker().check_output(block.code, printed, ELLIPSIS | NORMALIZE_WHITESPACE)
    if not same and not (block.title == ABOUT and _alike(block.code, printed)):
        raise BlockFailed(f"the page has\n{block.code}\nbut this is printed:\n{printed}")


def _alike(text: str, other: str) -> bool:
    """Whether two texts differ in numbers alone, by ten at most."""
    words, others = (NUMBER.sub("0", some).split() for some in (text, other))
    numbers = zip(NUMBER.findall(text), NUMBER.findall(other), strict=False)
    return words == others and all(abs(float(a) - float(b)) <= 10 for a, b in numbers)


def _write(block: Block, blocks: Sequence[Block], folder: Path) -> None:
    others = "".join(other.code for other in blocks if other is not block)
    if not re.search(rf"\b{re.escape(Path(block.title).stem)}\b", others):
        raise BlockFailed(f"no block uses the file {block.title}")
    (folder / block.title).parent.mkdir(parents=True, exist_ok=True)
    (folder / block.title).write_text(block.code, encoding="utf-8")


def _run(block: Block, namespace: dict[str, object], folder: Path) -> str:
    """What it prints."""
    if block.language == "sh":
        return "".join(_shell(block, folder))
    name = f"block in line {block.line}"
    linecache.cache[name] = len(block.code), None, block.code.splitlines(keepends=True), name
    with redirect_stdout(StringIO()) as printed:  # with its source, as in a notebook
        exec(compile(block.code, name, "exec", dont_inherit=True), namespace)
    return printed.getvalue()


def _shell(block: Block, folder: Path) -> Iterator[str]:
    """Commands of favano run in this process, which has PyTorch already; all else in bash."""
    lines = commands_of(block)
    if all(re.fullmatch(r"favano [^|&;<>$`*~]*", line) for line in lines):
        for line in lines:
            result = CliRunner().invoke(app, shlex.split(line, comments=True)[1:])
            if result.exit_code:
                raise BlockFailed(f"{line}: exit code {result.exit_code}\n{result.output}")
            yield result.stdout
        return
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.code],
        cwd=folder, env=os.environ | {"PATH": path}, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        raise BlockFailed(f"exit code {done.returncode}\n{done.stdout}{done.stderr}")
    yield done.stdout


def commands_of(block: Block) -> list[str]:
    """The lines of a block of `sh`, joined where a backslash ends them."""
    return [line for line in block.code.replace("\\\n", " ").splitlines() if line.strip()]
