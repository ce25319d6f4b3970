"""The run files of `favano reproduce`: runs that differ only in their seed form one result."""

from __future__ import annotations

import json
from pathlib import Path

from favano.records import (
    RunFile,
    Status,
    diverged,
    entries_from_csv,
    read_file,
    run_from_json,
    run_record,
    worst,
)
from favano.records.ledger import LEDGERS
from favano.records.run_file import FOLDER
from favano.report.digest_check import DigestCheck, check_digests
from favano.report.result import Result, tools, within


def run_files(path: Path) -> list[Path]:
    """The run files of an output folder, or of one table or figure in it, sorted.

    The ledgers of a table or figure list its runs, whose files are in a folder beside it.
    """
    ledgers = [path / f"{name}.csv" for name in LEDGERS if (path / f"{name}.csv").is_file()]
    beside = path.resolve().parent / FOLDER
    if not ledgers or not beside.is_dir():
        return sorted((path / FOLDER).glob("*.json"))
    listed = {entry.digest for file in ledgers for entry in read_file(file, entries_from_csv)}
    files = (beside / f"{digest}.json" for digest in sorted(listed))
    return [file for file in files if file.is_file()]


def read_archive(files: list[Path]) -> list[Result]:
    """The results in run files, `favano` first; runs of a rate search are left out."""
    groups: dict[str, list[tuple[Path, RunFile]]] = {}
    for file in files:
        run = read_file(file, run_from_json)
        if not run.spec.get("holdout"):
            shared = {key: value for key, value in run.spec.items() if key != "seed"}
            groups.setdefault(json.dumps(shared, sort_keys=True), []).append((file, run))
    results = [_result(group) for _, group in sorted(groups.items())]
    return sorted(results, key=lambda result: (result.name != "favano", result.name))


def _result(group: list[tuple[Path, RunFile]]) -> Result:
    group = sorted(group, key=lambda pair: pair[1].entry.seed)
    (path, first), runs = group[0], [run for _, run in group]
    name, rows = str(first.spec["algorithm"]), [within(run.spec, run.history) for run in runs]
    last = {
        run.entry.seed: run_record(name, history[-1], _status(run))
        for run, history in zip(runs, rows, strict=True)
        if history
    }
    return Result(
        name=name,
        folder=path.with_suffix(""),
        spec={**first.spec, "seeds": len(runs)},
        rows=tuple(row for history in rows for row in history),
        runs=tuple(last.values()),
        status=worst(map(_status, runs)) if last else "missing",
        command=first.command,
        version=first.favano,
        tools=tools(None, first.kernels),
        metrics=first.metrics,
        digests=_checked(runs),
    )


def _checked(runs: list[RunFile]) -> DigestCheck:
    """What the digests of all runs show: the first that is wrong, or not known."""
    checks = [
        check_digests(run.spec, run.history, (run.entry,), {"data": run.data}) for run in runs
    ]
    wrong = [check for check in checks if check.status == "changed"]
    return next(iter(wrong), max(checks, key=lambda check: check.status))


def _status(run: RunFile) -> Status:
    """A run that stopped at NaN is partial; one that continued has diverged."""
    if run.entry.status == "complete":
        return "complete"
    return "diverged" if run.history and diverged(run.history[-1]) else "partial"
