"""What the files of a result state, and whether they agree with each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import TypeAlias

import torch
from torch import Tensor

from favano.engine import model_digest
from favano.errors import need
from favano.methods import AnyMethod, all_methods, source_digest
from favano.methods.favano import Favano
from favano.records import (
    Entry,
    Row,
    RunRecord,
    history_from_csv,
    read_file,
    run_from_json,
    summary_from_json,
)
from favano.records.chain import first_broken
from favano.records.folder import CHECKPOINTS, HISTORY, MODEL, SPEC, SUMMARY
from favano.report.archive import run_files
from favano.report.collection import result_folders
from favano.run.history_start import history_start
from favano.run.result_folder import files_digest, read_models
from favano.specification.config import read_config
from favano.specification.presets import resolve
from favano.specification.spec import ALGORITHM, Spec, make_spec

Methods: TypeAlias = Mapping[str, type[AnyMethod]]  # by name

NO_METHODS: Methods = {}
_ALL_FILES = "need all files of a result as they were written"
_FROM_PYTHON = "verify it from Python, by favano.verify(folder, problem, methods=[...])"


@dataclass(frozen=True)
class Tools:
    """What the last bits of a result depend on; None if unknown."""

    torch: str | None  # its version
    kernels: str | None  # None on a GPU
    processor: str | None  # or the GPU


@dataclass(frozen=True)
class Statement:
    """What was run, and what came out, as a result folder or a run file states it."""

    path: Path
    spec: Spec
    whole: bool  # whether all seeds ended
    rows: Mapping[int, Sequence[Row]]  # by seed
    final: Mapping[int, Mapping[str, object]]  # cells of the last row of each seed, stated again
    tools: Tools
    data: str | None  # digests; None: there are none
    files: str | None
    source: str | None
    checkpoints: Path  # the folder, if there is one
    models: Mapping[int, Mapping[str, Tensor]] | None = None  # by seed; run files have none

    @property
    def seeds(self) -> list[int]:
        """All seeds that the files know of."""
        run = self.spec.run
        asked = range(run.seed, run.seed + run.seeds) if self.whole else ()
        return sorted({*asked, *self.rows, *self.final})


def read_statements(path: Path, methods: Methods = NO_METHODS) -> list[Statement]:
    """The results in a folder: of a run, of a comparison, or of `favano reproduce`.

    `methods` are those that cannot be found by their names.
    """
    found = []
    for folder in result_folders(path):
        files = [_read_run_file(file) for file in run_files(folder)]
        found += files or [_read_folder(folder, methods)]
    return found


def contradiction(stated: Statement, seed: int) -> str | None:
    """The first thing about a seed in which the files contradict each other.

    Nothing is computed but digests. None also for files of earlier versions, which have none.
    """
    rows = stated.rows.get(seed, ())
    if not rows:
        return "has no rows"
    if seed not in stated.final:
        return "has rows, but no final numbers"
    if any(row.digest for row in rows):
        digests = {"data": stated.data, "files": stated.files, "source": stated.source}
        place = first_broken(rows, history_start(stated.spec, seed, **digests))
        if place is not None:
            before = row_name(rows, place - 1) if place else "this specification, data and seed"
            return f"{row_name(rows, place)} was changed, or does not follow {before}"
        if stated.models is not None and _file_digest(stated, seed) != rows[-1].model_digest:
            return f"{MODEL} does not hold the model of its last row"
    for name, value in stated.final[seed].items():
        if not same(value, rows[-1].cell(name)):
            return f"{name} is {value} in the end, but {rows[-1].cell(name)} in its last row"
    return None


def row_name(rows: Sequence[Row], place: int) -> str:
    """A row for people: its number, from 1 for each seed, and its time."""
    return f"row {place + 1} (time {rows[place].time:,g})"


def same(one: object, other: object) -> bool:
    """Whether two cells are equal; numbers that are not finite are not told apart, as in JSON."""
    return one == other or not (_is_known(one) or _is_known(other))


def _is_known(cell: object) -> bool:
    return cell is not None and not (isinstance(cell, float) and not isfinite(cell))


def _file_digest(stated: Statement, seed: int) -> str | None:
    """The digest of a seed's model in the model file, as rows have it; None if there is none."""
    if stated.models is None or seed not in stated.models:
        return None
    tensors = [tensor.flatten() for tensor in stated.models[seed].values()]
    kind = tensors[0].dtype  # counters are whole numbers in files, but not in flat models
    return model_digest(torch.cat([one.to(kind) for one in tensors]))


def _spec_of(folder: Path, methods: Methods) -> Spec:
    config = read_config(folder / SPEC)
    keys = {**config.shared, **(config.methods[0] if config.methods else {})}
    name = str(keys.get(ALGORITHM, Favano.name))
    by_name = ".py" in name or name in all_methods()
    rule = f"was made with a method of its own, {name}; {_FROM_PYTHON}"
    need(by_name or name in methods, "folder", folder, rule)
    return resolve(make_spec(keys, methods.get(name)))


def _read_folder(folder: Path, methods: Methods) -> Statement:
    summary = read_file(folder / SUMMARY, summary_from_json)
    return Statement(
        folder,
        _spec_of(folder, methods),
        summary.status != "partial",
        _by_seed(read_file(folder / HISTORY, history_from_csv)),
        {run.seed: {**run.metrics, **_cells(run)} for run in summary.runs},
        Tools(summary.torch, summary.kernels, summary.processor),
        summary.data,
        summary.trace,
        summary.source,
        folder / CHECKPOINTS,
        read_models(folder / MODEL, [run.seed for run in summary.runs], "folder", _ALL_FILES),
    )


def _read_run_file(path: Path) -> Statement:
    found = read_file(path, run_from_json)
    spec, entry = resolve(make_spec(found.spec)), found.entry
    return Statement(
        path,
        spec,
        True,
        _by_seed(found.history),
        {entry.seed: {"accuracy": entry.accuracy, **_cells(entry)}},
        Tools(found.torch, found.kernels, found.processor),
        found.data,
        files_digest(spec),
        source_digest(spec.method),
        path.with_suffix(f".{CHECKPOINTS}"),
    )


def _cells(end: RunRecord | Entry) -> dict[str, object]:
    """Cells of the last row as both kinds of record have them."""
    return {
        "loss": end.loss,
        "variance": end.variance,
        "time": end.time,
        "server_step": end.server_steps,
        "local_steps": end.local_steps,
    }


def _by_seed(rows: Iterable[Row]) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = {}
    for row in rows:
        found.setdefault(row.seed, []).append(row)
    return found
