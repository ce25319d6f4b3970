"""The run files of `favano reproduce`: runs that differ in their seed alone are one result."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, TypeAdapter

from favano.metrics import Entry, Row, diverged, null_is_nan
from favano.report.result import Result, Status, parse, tools, within
from favano.report.summary import last_rows

FOLDER = "runs"


@dataclass(frozen=True)
class _RunFile:
    """What a run file holds, as far as the page asks."""

    favano: str
    command: str
    spec: dict[str, object]
    entry: Entry
    history: Annotated[tuple[Row, ...], BeforeValidator(null_is_nan)]
    kernels: str | None = None


def run_files(path: Path) -> list[Path]:
    """The run files of an output folder, sorted."""
    return sorted((path / FOLDER).glob("*.json"))


def read_archive(files: list[Path]) -> list[Result]:
    """Results, `favano` first; runs of a search for rates are left out."""
    groups: dict[str, list[tuple[Path, _RunFile]]] = {}
    for file in files:
        found = parse(file, TypeAdapter(_RunFile).validate_json)
        if not found.spec.get("holdout"):
            shared = {key: value for key, value in found.spec.items() if key != "seed"}
            groups.setdefault(json.dumps(shared, sort_keys=True), []).append((file, found))
    results = [_result(group) for _, group in sorted(groups.items())]
    return sorted(results, key=lambda result: (result.name != "favano", result.name))


def _result(group: list[tuple[Path, _RunFile]]) -> Result:
    group = sorted(group, key=lambda pair: pair[1].entry.seed)
    (path, first), runs = group[0], [found for _, found in group]
    rows = within(first.spec, (row for run in runs for row in run.history))
    return Result(
        name=str(first.spec["algorithm"]),
        folder=path.with_suffix(""),
        spec={**first.spec, "seeds": len(runs)},
        rows=rows,
        runs=last_rows(rows),
        status=_status(runs),
        command=first.command,
        version=first.favano,
        tools=tools(None, first.kernels),
    )


def _status(runs: list[_RunFile]) -> Status:
    """A run that stopped at NaN leaves its result partial; one that went on has diverged."""
    bad = [run for run in runs if run.entry.status != "complete"]
    if not bad:
        return "complete"
    return (
        "diverged" if all(run.history and diverged(run.history[-1]) for run in bad) else "partial"
    )
