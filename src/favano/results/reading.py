"""The reader of result folders, of those below a folder, and of the runs of `favano reproduce`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from favano import __version__
from favano.errors import require
from favano.records import (
    Summary,
    as_path,
    bounds_from_csv,
    entries_from_csv,
    history_from_csv,
    metric_names,
    participation_from_json,
    read_file,
    summary_from_json,
    undescribed,
    worst,
)
from favano.records.folder import BOUND, HISTORY, MODEL, PARTICIPATION, RUNS_FOLDER, SPEC, SUMMARY
from favano.records.ledger import LEDGERS
from favano.report.settings import disambiguated
from favano.results.folder_check import has_same_run
from favano.results.model_file import read_models
from favano.results.result import Comparison, Result
from favano.specification.config import keys_from_toml
from favano.specification.spec import Spec

Parsed = TypeVar("Parsed")
_FILES = (SPEC, HISTORY)
_DIGEST = re.compile("[0-9a-f]{16}")  # the name of a run of `favano reproduce`


def load(folder: Path | str) -> Comparison:
    """Read a result folder written by `save` or the command line, or a folder of several.

    A folder of one result is a comparison, too: `favano.load(folder).results[0]`.
    """
    return Comparison(collect([as_path("folder", folder)]))


def read_result(folder: Path) -> Result:
    """Read one result folder; the error of a file that cannot be read names it.

    Files that are not there are as if they said nothing. Models are read when they are asked for.
    """
    require(folder.is_dir(), "results", folder, "no such folder")
    keys = read_file(folder / SPEC, keys_from_toml)
    rows = _read_if_there(folder / HISTORY, history_from_csv) or []
    summary = _read_if_there(folder / SUMMARY, summary_from_json)
    if summary is None:
        summary = Summary(status="partial", metrics=undescribed(metric_names(rows)), runs=())
    for metric in summary.metrics:
        held = all(metric.name in row.metrics for row in rows)
        require(held, "results", folder / HISTORY, f"lacks a metric of {SUMMARY}: {metric.name}")
    return Result(
        keys,
        summary,
        rows,
        bounds=_read_if_there(folder / BOUND, bounds_from_csv) or [],
        participation=_read_if_there(folder / PARTICIPATION, participation_from_json),
        folder=folder,
    )


def _read_if_there(path: Path, parser: Callable[[str], Parsed]) -> Parsed | None:
    return read_file(path, parser) if path.exists() else None


def earlier_results(asked: Mapping[Path, Spec]) -> dict[int, Result]:
    """Complete results of the same runs with fewer seeds, which can be taken over, by number."""
    earlier = {}
    for number, (folder, spec) in enumerate(asked.items()):
        if has_same_run(folder, spec, but=["seeds"]):
            result = read_result(folder)
            seeds, remedy = [run.seed for run in result.runs], "repeat it by --force"
            states = read_models(folder / MODEL, seeds, "out", remedy)
            result.summary.favano = __version__  # which adds to it
            earlier[number] = replace(result, _states=states, folder=None).with_spec(spec)
    return earlier


def collect(paths: Sequence[Path]) -> list[Result]:
    """The results in `paths`: result folders, output of `favano reproduce`, or their parents.

    Paths keep their order; the results of one parent are sorted by folder, with `favano` first.
    A subfolder with a specification but no history is listed as missing.
    """
    require(len(paths) > 0, "results", "", "need at least one folder")
    folders = [folder for path in paths for folder in result_folders(path)]
    results: list[Result] = []
    for folder in folders:
        runs = run_folders(folder)
        results += _by_seed([read_result(run) for run in runs]) if runs else [read_result(folder)]
    rule = "holds nothing but trials of a search, on held-out samples; see trials.csv"
    require(bool(results), "results", paths[0], rule)
    seen: set[Path] = set()
    for result in results:
        assert result.folder is not None
        require(result.folder.resolve() not in seen, "results", result.folder, "given twice")
        seen.add(result.folder.resolve())
    return disambiguated(results)


def result_folders(path: Path) -> list[Path]:
    """The folder itself if it holds a result or runs, or those below it, `favano` first."""
    require(path.is_dir(), "results", path, "no such folder")
    if all((path / file).exists() for file in _FILES) or run_folders(path):
        return [path]
    folders = _below(path)
    files = f"spec.toml and history.csv, or {RUNS_FOLDER}/ of favano reproduce"
    rule = f"holds no result (need {files}, here or in its subfolders)"
    require(bool(folders), "results", path, rule)
    return folders


def _below(path: Path) -> list[Path]:
    """Result folders and outputs of `favano reproduce` under `path`, nothing inside them."""
    folders = [folder for folder in path.iterdir() if folder.is_dir()]
    results = []
    for folder in sorted(folders, key=lambda folder: (folder.name != "favano", folder.name)):
        if any((folder / file).exists() for file in _FILES):
            there = (folder / SPEC).exists()
            require(there, "results", folder, "history.csv without spec.toml")
            results.append(folder)
        elif run_folders(folder):
            results.append(folder)
        else:
            results += _below(folder)
    return results


def run_folders(path: Path) -> list[Path]:
    """The runs of `favano reproduce` in its output folder, or of one table or figure in it, sorted.

    The ledgers of a table or figure list its runs, whose folders are in a folder beside it.
    """
    ledgers = [path / f"{name}.csv" for name in LEDGERS if (path / f"{name}.csv").is_file()]
    beside = path.resolve().parent / RUNS_FOLDER
    names = [file.parent.name for file in (path / RUNS_FOLDER).glob(f"*/{SUMMARY}")]
    where = path / RUNS_FOLDER
    if ledgers and beside.is_dir():
        where = beside
        names = [entry.digest for file in ledgers for entry in read_file(file, entries_from_csv)]
    runs = [where / name for name in sorted(set(names)) if _DIGEST.fullmatch(name)]
    return [run for run in runs if (run / SUMMARY).is_file()]


def _by_seed(runs: Sequence[Result]) -> list[Result]:
    """Runs that differ only in their seed form one result; those of a rate search are left out."""
    groups: dict[str, list[Result]] = {}
    for run in runs:
        if not run.keys.get("holdout"):
            shared = {**run.keys, "seed": None, "data": run.summary.data}
            groups.setdefault(json.dumps(shared, sort_keys=True), []).append(run)
    results = [_joined(group) for _, group in sorted(groups.items())]
    return sorted(results, key=lambda result: (result.name != "favano", result.name))


def _joined(group: Sequence[Result]) -> Result:
    """One result of runs that differ in their seed."""
    runs = sorted(group, key=lambda run: int(str(run.keys.get("seed", 0))))
    summary = replace(
        runs[0].summary,
        status=worst(run.summary.status for run in runs),
        runs=tuple(record for run in runs for record in run.runs),
    )
    keys = {**runs[0].keys, "seeds": len(runs)}
    rows = [row for run in runs for row in run.rows]
    return replace(runs[0], keys=keys, summary=summary, rows=rows)
