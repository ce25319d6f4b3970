"""Every code block of every page runs; commands that cannot be run here can be typed as printed."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from favano.cli.app import app
from tests.docs.pages import (
    PAGES,
    ROOT,
    RUN,
    BlockFailed,
    blocks_of,
    check_fences,
    commands_of,
    quick_part,
    run_blocks,
)

BLOCKS = {
    str(page.relative_to(ROOT)): blocks_of(page.read_text(encoding="utf-8")) for page in PAGES
}
SLOW = [page for page, blocks in BLOCKS.items() if len(quick_part(blocks)) < len(blocks)]
LEFT_OUT = [
    (page, block) for page, blocks in BLOCKS.items() for block in blocks if "not run" in block.mark
]
COMMANDS = [
    command.split("#")[0].strip(" &")
    for _, block in LEFT_OUT
    for command in commands_of(block)
    if command.startswith("favano ") and "$" not in command
]


ROOT_COMMAND = typer.main.get_command(app)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working directory, from which files can be imported; the next page has its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.mark.parametrize("page", BLOCKS)
def test_every_block_names_its_language(page: str) -> None:
    check_fences((ROOT / page).read_text(encoding="utf-8"))


@pytest.mark.quick(  # `make site` runs all of them
    "README.md",
    "docs/explanation/law.md",
    "docs/explanation/who-trains.md",
    "docs/how-to/gpu.md",
    "docs/how-to/running-a-federation.md",
    "docs/reference/readings.md",
)
@pytest.mark.parametrize("page", [page for page in BLOCKS if quick_part(BLOCKS[page])])
def test_the_blocks_run(page: str, folder: Path) -> None:
    run_blocks(BLOCKS[page], folder, quick=True)


@pytest.mark.slow
@pytest.mark.parametrize("page", SLOW)
def test_slow_blocks_run(page: str, folder: Path) -> None:
    run_blocks(BLOCKS[page], folder)


def test_few_blocks_are_not_run() -> None:
    """Each with a reason of two words or more."""
    runnable = [block for blocks in BLOCKS.values() for block in blocks if block.language in RUN]
    assert len(LEFT_OUT) < 0.4 * len(runnable)
    assert [page for page, block in LEFT_OUT if len(block.mark.split()) < 4] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_that_are_not_run_are_understood(command: str) -> None:
    """Every flag and value is taken."""
    kind = ROOT_COMMAND
    words = shlex.split(command)
    context = kind.make_context("favano", words[1:])
    while (rest := [*context._protected_args, *context.args]) and hasattr(kind, "commands"):
        kind = kind.commands[rest[0]]
        context = kind.make_context(rest[0], rest[1:], parent=context)
    assert not rest


PAGE = """
```python title="own.py"
NUMBER = 3
```

<!-- slow -->
```python
import own
print(own.NUMBER)
```

```text title="Output"
3
```
"""


def test_a_page_runs_in_order_and_its_output_is_compared(folder: Path) -> None:
    blocks = blocks_of(PAGE)
    assert [block.line for block in quick_part(blocks)] == [2]
    run_blocks(blocks, folder)


def run_page(text: str, folder: Path) -> None:
    check_fences(text)
    run_blocks(blocks_of(text), folder)


def test_numbers_of_an_output_may_differ_a_little_where_the_page_says_so(folder: Path) -> None:
    about = PAGE.replace("Output", "Output, about").replace("\n3\n", "\n12\n")
    run_page(about, folder)
    for wrong in ("14", "3 %"):
        with pytest.raises(BlockFailed, match="but this is printed:\n3"):
            run_page(about.replace("\n12\n", f"\n{wrong}\n"), folder)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("own.NUMBER", "own.NAME", "line 7: module 'own' has no attribute 'NAME'"),
        ("\n3\n", "\n4\n", "but this is printed:\n3"),
        ("import own\nprint(own.NUMBER)", "print(3)", "no block uses the file own.py"),
        ("```text", "```", "a block of ''"),
        ("```text", "```console", "a block of 'console'"),
        ('\n```text title="Output"', "", "fences"),
    ],
)
def test_a_block_that_fails_is_found(old: str, new: str, message: str, folder: Path) -> None:
    with pytest.raises(BlockFailed, match=message):
        run_page(PAGE.replace(old, new), folder)


@pytest.mark.parametrize(
    "command", ["favano run --learning-rte 1", "favano methods nothing", "false | true"]
)
def test_a_command_that_fails_is_found(command: str, folder: Path) -> None:
    with pytest.raises(BlockFailed, match="exit code"):
        run_blocks(blocks_of(f"```sh\n{command}\n```"), folder)


def test_a_page_whose_result_learnt_nothing_is_found(folder: Path) -> None:
    with pytest.raises(BlockFailed, match="FAVANO is untrained: no server"):
        run_blocks(blocks_of("```sh\nfavano run --horizon 3\n```"), folder)
