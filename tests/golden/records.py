"""The files of the records, and what they were made with.

`records/KIND.json` has a value for each case. What a value has under "bytes", digests of content
that depends on the last bits, is in a file for each architecture, `records/KIND.x86_64.json`, and
is compared where machine and libraries are those of the record.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Collection, Mapping
from functools import cache
from hashlib import sha256
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias, cast

import torch

import favano
from tests.golden.comparison import Difference, Value, differences

BYTES: Final = "bytes"
FOLDER: Final = Path(__file__).with_name("records")
_WIDTH: Final = 100  # characters of a line
Values: TypeAlias = dict[str, Value]


class Kind(Protocol):
    """A module of records."""

    CASES: Mapping[str, Any]  # what it records, by name
    TOLERANCE: float
    QUICK: Collection[str]

    def record(self, case: Any, /) -> Values:
        """What is recorded of a case."""


class Records:
    """The records of a kind."""

    def __init__(self, name: str) -> None:
        self.kind = cast(Kind, import_module(f"tests.golden.{name}"))
        self._values = _File(FOLDER / f"{name}.json")
        self._bytes = _File(FOLDER / f"{name}.{platform.machine()}.json")

    @property
    def missing(self) -> str:
        """What the kind needs and is not here; nothing of most."""
        needs: Path | None = getattr(self.kind, "NEEDS", None)
        return "" if needs is None or needs.is_dir() else f"needs the data sets in {needs}"

    @property
    def names(self) -> list[str]:
        """The cases that are recorded."""
        return list(self._values.cases)

    def made(self, case: str) -> Values:
        """The values of a case here and now; a refusal is one, too."""
        try:
            return self.kind.record(self.kind.CASES[case])
        except favano.BadInput as refusal:
            return {"refused": str(refusal)}

    def differences(self, case: str, made: Values) -> list[Difference]:
        """Where a case, as it was made here and now, is not as it was recorded."""
        values, content = _parts(made)
        old, here = self._values.cases.get(case, {}), self._values.made_here
        found = differences(old, values, self.kind.TOLERANCE, same_machine=here)
        if self._bytes.made_here:
            found += differences({BYTES: self._bytes.cases.get(case, {})}, {BYTES: content}, 0.0)
        return found

    def write(self, made: Mapping[str, Values]) -> None:
        """Record all cases anew; values that are as they were, within the tolerance, stay."""
        values = {case: _parts(each)[0] for case, each in made.items()}
        content = {case: each for case, both in made.items() if (each := _parts(both)[1])}
        known, here = self._values.cases, self._values.made_here
        if differences(known, values, self.kind.TOLERANCE, same_machine=here):
            self._values.write(values)
        if content != self._bytes.cases:
            self._bytes.write(content)


class _File:
    """The cases in a file, and what they were made with."""

    def __init__(self, path: Path) -> None:
        self._path = path
        document = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        self.cases: dict[str, Values] = document.get("cases", {})
        others = {**document.get("made_with", {}), "favano": favano.__version__}
        self.made_here = others == made_with()

    def write(self, cases: Mapping[str, Values]) -> None:
        document = {"made_with": made_with(), "cases": dict(cases)}
        self._path.write_text(f"{_text(document)}\n", encoding="utf-8")


def digest(content: bytes) -> str:
    """What stands for bytes."""
    return sha256(content).hexdigest()[:24]


@cache
def made_with() -> dict[str, str]:
    """Release, machine and libraries of this process; what numbers depend on."""
    named = ("model name", "CPU implementer", "CPU variant", "CPU part")
    path = Path("/proc/cpuinfo")
    lines = path.read_text().split("\n\n")[0].splitlines() if path.is_file() else []
    facts = {
        key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)
    }
    return {
        "favano": favano.__version__,
        "processor": ", ".join(facts[name] for name in named if name in facts),
        "architecture": platform.machine(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        **{library: version(library) for library in ("torch", "numpy", "scipy")},
    }


def _parts(made: Values) -> tuple[Values, Values]:
    """The values of a case, and its bytes."""
    content = made.get(BYTES, {})
    assert isinstance(content, dict)
    return {key: value for key, value in made.items() if key != BYTES}, content


def _text(value: Any, indent: str = "") -> str:
    """JSON in short lines, but for lists of numbers, which have a line each."""
    line = json.dumps(value, ensure_ascii=False)
    of_numbers = isinstance(value, list) and not any(
        isinstance(x, str | list | dict) for x in value
    )
    whole = len(indent) + len(line) <= _WIDTH or of_numbers or not isinstance(value, list | dict)
    if whole:
        return line
    inner = f"{indent} "
    if isinstance(value, dict):
        items = [f"{json.dumps(key)}: {_text(item, inner)}" for key, item in value.items()]
    else:
        items = [_text(item, inner) for item in value]
    rows = f",\n{inner}".join(items)
    return f"{line[0]}\n{inner}{rows}\n{indent}{line[-1]}"
