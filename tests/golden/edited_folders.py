"""Edited result folders, and what `favano verify` says of each, of its runs and of its digests.

The folder that is edited is made anew by the release that is asked, so what is said is the same on
every machine. Each edit is by hand, as somebody would make it who wants another result.
"""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable, Mapping
from functools import cache
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeAlias

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file

from tests.golden.front_door import command, folder
from tests.golden.records import Values
from tests.golden.said import said

TOLERANCE: Final = 1e-3  # of numbers in sentences
Edit: TypeAlias = Callable[[Path], object]
Table: TypeAlias = list[list[str]]
Tensors: TypeAlias = dict[str, Any]

_RUN: Final = (
    "favano run --clients 9 --selected 3 --local-steps 4 --batch-size 16 --horizon 40 "
    "--evaluate-every 20 --seeds 2 --track-bound --checkpoint-every inf --out"
)
_RESULT: Final = "result"
_HISTORY, _BOUND, _SPEC = "history.csv", "bound.csv", "spec.toml"
_SUMMARY, _PARTICIPATION, _MODEL = "summary.json", "participation.json", "model.safetensors"


def _text(name: str, old: str, new: str) -> Edit:
    def edit(result: Path) -> None:
        text = (result / name).read_text()
        assert old in text, f"{name} does not hold {old}"
        (result / name).write_text(text.replace(old, new, 1))

    return edit


def _lines(change: Callable[[Table], Table], name: str = _HISTORY) -> Edit:
    """Of a table; its heading is line 0."""

    def edit(result: Path) -> None:
        with (result / name).open(newline="") as file:
            table = change(list(csv.reader(file)))
        with (result / name).open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(table)

    return edit


def _cell(line: int, column: str, value: str, name: str = _HISTORY) -> Edit:
    def change(table: Table) -> Table:
        table[line][table[0].index(column)] = value
        return table

    return _lines(change, name)


def _forged(table: Table) -> Table:
    """A smaller loss in line 2, with all digests that follow made anew."""
    names = table[0]
    table[2][names.index("loss")] = "0.25"
    for before, line in pairwise(table[1:4]):
        cells = {name: json.loads(cell) for name, cell in zip(names[:-2], line[:-2], strict=True)}
        cells[names[-2]] = line[-2]  # of the model
        line[-1] = sha256(json.dumps([before[-1], cells]).encode()).hexdigest()[:16]
    return table


def _column(name: str) -> Edit:
    """Without a column."""

    def change(table: Table) -> Table:
        place = table[0].index(name)
        return [[*line[:place], *line[place + 1 :]] for line in table]

    return _lines(change)


def _entry(name: str, *place: str | int, value: object) -> Edit:
    """Of a JSON file."""

    def edit(result: Path) -> None:
        document = inner = json.loads((result / name).read_text())
        for key in place[:-1]:
            inner = inner[key]
        assert place[-1] in inner or isinstance(place[-1], int), f"{name} has no {place}"
        inner[place[-1]] = value
        (result / name).write_text(json.dumps(document))

    return edit


def _tensors(change: Callable[[Tensors], Tensors]) -> Edit:
    def edit(result: Path) -> None:
        with safe_open(result / _MODEL, "numpy") as file:
            tensors, about = {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118
        save_file(change(tensors), result / _MODEL, about)

    return edit


def _file(name: str, change: Callable[[bytes], bytes | None]) -> Edit:
    def edit(result: Path) -> None:
        content = change((result / name).read_bytes())
        (result / name).unlink() if content is None else (result / name).write_bytes(content)

    return edit


def _other_seed(name: str) -> str:
    return name.replace("seed-0", "seed-x").replace("seed-1", "seed-0").replace("seed-x", "seed-1")


def _from(name: str, *files: str) -> Edit:
    """With these files of another run."""
    return lambda result: [shutil.copy(_made(_OTHERS[name]) / file, result) for file in files]


def _halved(content: bytes) -> bytes:
    return content[: len(content) // 2]


_OTHERS: Final = {
    "a larger rate": f"{_RUN} {_RESULT} --learning-rate 0.6",
    "other seeds": f"{_RUN} {_RESULT} --seed 1",
    "a longer run": f"{_RUN} {_RESULT} --horizon 60",
}
_CLASSES: Final = "seed-0.output.bias"
_KEPT: Final[list[TemporaryDirectory[str]]] = []

CASES: Final[Mapping[str, Edit]] = {
    "nothing is changed": lambda result: None,
    # Rows
    "a loss": _cell(2, "loss", "0.25"),
    "a loss, with all digests made anew": _lines(_forged),
    "an accuracy": _cell(3, "accuracy", "0.975"),
    "a time": _cell(2, "time", "19.0"),
    "bits that were sent": _cell(5, "bits_up", "1"),
    "the digest of a model": _cell(2, "model_digest", "0123456789abcdef"),
    "the digest of a row": _cell(2, "digest", "0123456789abcdef"),
    "a word for a number": _cell(2, "loss", "small"),
    "a loss that is not finite": _cell(3, "loss", "nan"),
    "a row is missing": _lines(lambda table: table[:2] + table[3:]),
    "the last row is missing": _lines(lambda table: table[:-1]),
    "a row is there twice": _lines(lambda table: [*table[:3], *table[2:]]),
    "a row is added": _lines(lambda table: [*table, ["1", "60.0", *table[-1][2:]]]),
    "rows of a third seed": _lines(lambda table: [*table, *(["2", *row[1:]] for row in table[4:])]),
    "two rows change places": _lines(lambda table: [*table[:2], table[3], table[2], *table[4:]]),
    "the seeds change places": _lines(
        lambda table: [table[0], *([str(1 - int(row[0])), *row[1:]] for row in table[1:])]
    ),
    "a row is cut off": _lines(lambda table: [*table[:-1], table[-1][:5]]),
    "a column is missing": _column("variance"),
    "digests are missing": _column("digest"),
    "no rows": _lines(lambda table: table[:1]),
    # The model
    "a value of the model": _tensors(
        lambda held: held | {_CLASSES: held[_CLASSES] + np.float32(1e-3) * (np.arange(10) == 3)}
    ),
    "a tensor is missing": _tensors(lambda held: {k: v for k, v in held.items() if k != _CLASSES}),
    "a tensor is added": _tensors(lambda held: held | {"seed-0.extra": held[_CLASSES]}),
    "a tensor of other precision": _tensors(
        lambda held: held | {_CLASSES: held[_CLASSES].astype(np.float64)}
    ),
    "the models change places": _tensors(
        lambda held: {_other_seed(name): tensor for name, tensor in held.items()}
    ),
    "the model of a larger rate": _from("a larger rate", _MODEL),
    "the model is missing": _file(_MODEL, lambda content: None),
    "the model is cut off": _file(_MODEL, _halved),
    # The summary
    "a final loss": _entry(_SUMMARY, "runs", 0, "loss", value=0.25),
    "a final count": _entry(_SUMMARY, "runs", 1, "local_steps", value=1),
    "seeds without an end": _entry(_SUMMARY, "runs", value=[]),
    "the status": _entry(_SUMMARY, "status", value="diverged"),
    "the version": _entry(_SUMMARY, "favano", value="0.0.9"),
    "the seconds": _entry(_SUMMARY, "runs", 0, "wall_seconds", value=0.001),
    "the processor": _entry(_SUMMARY, "processor", value="Another Processor"),
    "the version of PyTorch": _entry(_SUMMARY, "torch", value="2.0.0"),
    "the kernels": _entry(_SUMMARY, "kernels", value="native"),
    "the command": _entry(_SUMMARY, "command", value="favano run --horizon 1000"),
    "the title": _entry(_SUMMARY, "title", value="The best method"),
    "the digest of the data": _entry(_SUMMARY, "data", value="0" * 64),
    "an audited weight": _entry(_SUMMARY, "audit", "weight", 1, value=0.9),
    "the verdict of the audit": _entry(_SUMMARY, "audit", "verdict", value="favours nobody"),
    "the score of a client": _entry(_SUMMARY, "served", "score", 3, value=1.0),
    "the summary of other seeds": _from("other seeds", _SUMMARY),
    "the summary is missing": _file(_SUMMARY, lambda content: None),
    "the summary is cut off": _file(_SUMMARY, _halved),
    # The specification
    "the seed": _text(_SPEC, "seed = 0", "seed = 1"),
    "more seeds": _text(_SPEC, "seeds = 2", "seeds = 3"),
    "the learning rate": _text(_SPEC, "learning_rate = 0.5", "learning_rate = 0.4"),
    "a longer horizon": _text(_SPEC, "horizon = 40.0", "horizon = 60.0"),
    "a shorter horizon": _text(_SPEC, "horizon = 40.0", "horizon = 20.0"),
    "the method": _text(_SPEC, 'name = "favano"', 'name = "favano-delta"'),
    "an option of the method": _text(_SPEC, 'reweight = "stochastic"', 'reweight = "none"'),
    "an unknown key": _text(_SPEC, "seed = 0", "seed = 0\nspeed = 3"),
    "an unknown method": _text(_SPEC, 'name = "favano"', 'name = "fedbest"'),
    "the engine": _text(_SPEC, 'engine = "lanes"', 'engine = "loop"'),
    "the specification is cut off": _file(_SPEC, _halved),
    "the specification is missing": _file(_SPEC, lambda content: None),
    # Participation, bound, and other files
    "who was contacted": _entry(_PARTICIPATION, "listed", "contacts", 0, value=5),
    "participation is missing": _file(_PARTICIPATION, lambda content: None),
    "a bound": _cell(2, "gradient", "0.001", _BOUND),
    "the bound is missing": _file(_BOUND, lambda content: None),
    "a file is added": lambda result: (result / "notes.txt").write_text("fine\n"),
    "a longer run, but for its specification": _from(
        "a longer run", _HISTORY, _SUMMARY, _MODEL, _PARTICIPATION, _BOUND
    ),
    "another run, but for its specification": _from(
        "a larger rate", _HISTORY, _SUMMARY, _MODEL, _PARTICIPATION, _BOUND
    ),
    "everything is empty": lambda result: [path.write_bytes(b"") for path in result.iterdir()],
}
QUICK: Final = (
    *(
        "nothing is changed",
        "a loss, with all digests made anew",
        "a row is missing",
        "a value of the model",
        "a final loss",
    ),
    *("the version", "the seed", "who was contacted"),
)


def record(case: Edit) -> Values:
    """What is said of a copy of the result, with the exit code."""
    with folder() as here:
        result = here / _RESULT
        shutil.copytree(_made(f"{_RUN} {_RESULT}"), result)
        case(result)
        return {
            "repeated": said(command(f"favano verify {_RESULT}")),
            "by digests": said(command(f"favano verify {_RESULT} --chain")),
        }


@cache
def _made(line: str) -> Path:
    """A result, made once for all cases."""
    _KEPT.append(TemporaryDirectory())  # until the program ends
    place = Path(_KEPT[-1].name)
    with folder() as here:
        assert command(line).code == 0, line
        shutil.copytree(here / _RESULT, place, dirs_exist_ok=True)
    return place
