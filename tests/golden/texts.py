"""What users read: help, methods, tables, pages and documents, in 80 columns and without colours.

Each case is commands that are given in one folder, or what Python shows of the same. What changes
from one call to the next is left out: versions, seconds, and how far a run is. Texts are recorded
line by line, documents as values.
"""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Final

import favano
from tests.golden.accepted_keys import METHODS
from tests.golden.comparison import Value
from tests.golden.front_door import command, folder
from tests.golden.records import Values

TOLERANCE: Final = 0.05  # of accuracies and losses on another machine, which are rounded

_COMMANDS: Final = (
    *(
        "demo",
        "run",
        "compare",
        "tune",
        "resume",
        "verify",
        "methods",
        "plan",
        "bench",
        "reproduce",
    ),
    *("report", "keys", "join", "serve", "replay", "theory"),
)
_THEORY: Final = ("steps", "alpha", "bound", "complexity", "learning-rate", "advise")
_WITH_ALL: Final = ("run", "compare", "tune", "plan", "bench", "serve")
_DETAILS: Final = (
    "--optimiser adam --rate-schedule cosine --holdout 10 --server-optimiser adam",
    "--codec qsgd --quantise luq --fleet phones --policy buffered",
)
_SMALL: Final = (
    "--clients 8 --selected 2 --local-steps 3 --horizon 90 --evaluate-every 30 --batch-size 16"
)
_COMPARE: Final = f"favano compare --algorithms favano,fedavg {_SMALL} --seeds 2"

CASES: Final[dict[str, tuple[str, ...]]] = {
    **{f"help: {name}": (f"favano {name} --help",) for name in ("", *_COMMANDS)},
    **{f"help: theory {name}": (f"favano theory {name} --help",) for name in _THEORY},
    **{f"all help: {name}": (f"favano {name} --help-all",) for name in _WITH_ALL},
    **{f"help: run {name}": (f"favano run --algorithm {name} --help",) for name in METHODS},
    "all help: details": tuple(f"favano run {flags} --help-all" for flags in _DETAILS),
    "methods": ("favano methods",),
    **{f"method: {name}": (f"favano methods {name}",) for name in METHODS},
    "methods as a document": ("favano methods --json",),
    "a run": (f"favano run {_SMALL} --target 0.3 --out one",),
    "a run as a document": (f"favano run {_SMALL} --out one --json",),
    "a comparison": (f"{_COMPARE} --out both", "show both/report.html", "load both"),
    "a comparison as a document": (f"{_COMPARE} --json --out both",),
    "a report": (
        f"favano run {_SMALL} --out one", f"favano run {_SMALL} --algorithm fedbuff --out two",
        "favano report one two --title Two --target 0.2 --out page.html", "show page.html",
    ),
    "a plan": (f"favano plan {_SMALL}", f"favano plan {_SMALL} --json"),
    "a plan of absence": (
        f"favano plan {_SMALL} --algorithm fedbuff --availability two-state:60:20 --link 10:10",
    ),
    "a search": (f"favano tune --algorithms favano --grid learning_rate=0.1,0.3 {_SMALL}",),
    "table 1": ("favano reproduce table-1 --out made", "show made/table-1/README.md"),
    **{f"theory: {name}": (f"favano theory {name} {_SMALL}",) for name in _THEORY},
}  # fmt: skip
QUICK: Final = (
    *("help: ", "help: run", "help: compare", "all help: plan", "help: run fedbuff", "methods"),
    *("method: fedbuff", "methods as a document", "a comparison", "a plan"),
)


def record(case: tuple[str, ...]) -> Values:
    """What each command printed, and what is in its files."""
    does = {"favano": _printed, "show": _file, "load": _loaded}
    with folder():
        return {line: does[line.partition(" ")[0]](line) for line in case}


def _printed(line: str) -> Value:
    output = command(line)
    said = _lines(re.sub(r"(?m)^\d+ %: .*\n", "", output.err))  # but for how far it was
    document = json.loads(_masked(output.out)) if "--json" in line else _lines(output.out)
    return {"code": output.code, "said": said, "printed": document}


def _file(line: str) -> Value:
    """A text; of a page, what is read without JavaScript."""
    path = Path(line.partition(" ")[2])
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".html":
        page = _Page()
        page.feed(text)
        text = "\n".join(page.words)
    return _lines(text)


def _loaded(line: str) -> Value:
    """What Python shows of a comparison."""
    results = favano.load(line.partition(" ")[2])
    texts = [str(results), repr(results.results[0]), str(results.table()), results.to_latex(0.2)]
    return _lines("\n".join(texts))


class _Page(HTMLParser):
    """Collects the words of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self._hidden = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden = tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self._hidden = False

    def handle_data(self, data: str) -> None:
        if data.strip() and not self._hidden:
            self.words += [" ".join(line.split()) for line in data.splitlines() if line.strip()]


def _lines(text: str) -> list[Value]:
    return [line.rstrip() for line in _masked(text).splitlines()]


def _masked(text: str) -> str:
    """A text without versions and seconds."""
    for volatile, word in _VOLATILE.items():
        text = re.sub(volatile, word, text)
    return text


_VOLATILE: Final = {
    r"(favano|PyTorch) \d+\.\d+\S*": r"\1 VERSION",
    r"kernels [a-z]+": "kernels KERNELS",  # which suit a processor
    r"took [\d.].*": "took SOME TIME",
    r'"wall_seconds": [\d.e-]+': '"wall_seconds": null',
}
