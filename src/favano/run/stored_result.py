"""What the files of a result state, and whether they agree with each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import torch
from torch import Tensor

from favano.errors import require
from favano.methods import AnyMethod, all_methods, file_of, method_class, source_digest
from favano.methods.favano import Favano
from favano.records import (
    Row,
    RunFile,
    Status,
    history_from_csv,
    read_file,
    rows_by_seed,
    run_from_json,
    summary_from_json,
)
from favano.records.chain import running_digests
from favano.records.folder import (
    BOUND,
    CHECKPOINTS,
    FILES,
    HISTORY,
    MODEL,
    PARTICIPATION,
    SPEC,
    SUMMARY,
)
from favano.report.archive import run_files
from favano.report.collection import result_folders
from favano.report.digest_check import end_fault, final_cells, row_fault
from favano.report.result import algorithm_of
from favano.run.result_folder import read_models
from favano.specification.config import read_config
from favano.specification.digest import run_digest
from favano.specification.history_start import files_digest, history_start
from favano.specification.presets import resolve
from favano.specification.spec import ALGORITHM, Spec, make_spec

Methods: TypeAlias = Mapping[str, type[AnyMethod]]  # by name

NO_METHODS: Methods = {}
RUN_FILE = "run file"  # its key in `Statement.texts`
_ALL_FILES = "need all files of a result as they were written"
_FROM_PYTHON = "verify it from Python, by favano.verify(folder, problem, methods=[...])"


@dataclass(frozen=True)
class Toolchain:
    """What the last bits of a result depend on; None if unknown."""

    torch: str | None  # its version
    kernels: str | None  # None on a GPU
    processor: str | None  # or the GPU


@dataclass(frozen=True)
class StoredResult:
    """What was run, and what came out, as a result folder or a run file states it."""

    path: Path
    method: str
    spec: Spec | None  # None: its method is in a file that is not executed
    status: Status
    ends: Mapping[int, Status]  # how each seed ended
    rows: Mapping[int, Sequence[Row]]  # by seed
    final: Mapping[int, Mapping[str, object]]  # cells of the last row of each seed, stated again
    tools: Toolchain
    version: str | None  # of favano
    data: str | None  # digests; None: there are none
    files: str | None
    source: str | None
    checkpoints: Path  # the folder, if there is one
    texts: Mapping[str, str]  # all text files, by name
    models: Mapping[int, Mapping[str, Tensor]] | None = None  # by seed; run files have none
    run_file: RunFile | None = None

    @property
    def seeds(self) -> list[int]:
        """All seeds that the files know of."""
        asked = () if self.spec is None or self.status == "partial" else _seeds(self.spec)
        return sorted({*asked, *self.rows, *self.final})

    @property
    def files_looked_at(self) -> list[Path]:
        """All files of the result that are read."""
        if self.run_file is not None:
            return [self.path]
        return [self.path / name for name in (*self.texts, MODEL)]


def read_statements(
    path: Path, methods: Methods = NO_METHODS, *, execute: bool = True
) -> list[StoredResult]:
    """The results in a folder: of a run, of a comparison, or of `favano reproduce`.

    `methods` are those that cannot be found by their names. Unless told to `execute`, no file of a
    method is, and specifications that name one are left out.
    """
    statements = []
    for folder in result_folders(path):
        files = [_read_run_file(file, methods, execute) for file in run_files(folder)]
        statements += files or [_read_folder(folder, methods, execute)]
    return statements


def contradiction(stated: StoredResult, seed: int) -> str | None:
    """The first thing about a seed in which the files contradict each other.

    Nothing is computed but digests.
    """
    rows, spec = stated.rows.get(seed, ()), stated.spec
    if not rows:
        return "has no rows"
    if seed not in stated.final:
        return "has rows, but no final numbers"
    start = None
    if spec is not None:
        if seed not in _seeds(spec):
            return "is not one of the seeds in its specification"
        digests = {"data": stated.data, "files": stated.files, "source": stated.source}
        start = history_start(spec, seed, **digests)
    if fault := row_fault(rows, start):
        return fault
    if stated.run_file is not None and spec is not None and stated.path.stem != run_digest(spec):
        return f"is in {stated.path.name}, but its specification is that of {run_digest(spec)}"
    if stated.models is not None and rows[-1].model_digest not in _file_digests(stated, seed):
        return f"{MODEL} does not hold the model of its last row"
    return end_fault(rows[-1], stated.final[seed])


def _seeds(spec: Spec) -> range:
    return range(spec.run.seed, spec.run.seed + spec.run.seeds)


def _file_digests(stated: StoredResult, seed: int) -> Iterator[str]:
    """What the digest of a seed's model in the model file may be, as rows have it.

    The first tensors are those of a flat model. Constants of the network and second names of
    tensors that layers share may follow.
    """
    tensors = [*stated.models.get(seed, {}).values()] if stated.models else []
    kind = tensors[0].dtype if tensors else None  # counters are whole numbers in files alone
    numbers = (tensor.flatten().to(kind) for tensor in tensors if not tensor.is_complex())
    return running_digests(tensor.view(torch.uint8).numpy().data for tensor in numbers)


def _spec_of(
    path: Path, keys: Mapping[str, object], methods: Methods, execute: bool
) -> Spec | None:
    """The complete specification; None if its method would have to be executed, and must not."""
    name = str(keys.get(ALGORITHM, Favano.name))
    kind = methods.get(name) or all_methods().get(name)
    if kind is None and not execute:
        return None
    rule = f"was made with a method of its own, {name}; {_FROM_PYTHON}"
    require(kind is not None or file_of(name) is not None, "folder", path, rule)
    return resolve(make_spec(keys, kind or method_class(name)))


def _read_folder(folder: Path, methods: Methods, execute: bool) -> StoredResult:
    for name in FILES:
        there = (folder / name).is_file()
        require(there or name == MODEL, "folder", folder, f"holds no {name}; {_ALL_FILES}")
    keys = read_config(folder / SPEC).first
    summary = read_file(folder / SUMMARY, summary_from_json)
    names = (SPEC, HISTORY, SUMMARY, BOUND, PARTICIPATION)
    return StoredResult(
        folder,
        algorithm_of(keys, folder.name),
        _spec_of(folder, keys, methods, execute),
        summary.status,
        {run.seed: run.status for run in summary.runs},
        rows_by_seed(read_file(folder / HISTORY, history_from_csv)),
        {run.seed: final_cells(run) for run in summary.runs},
        Toolchain(summary.torch, summary.kernels, summary.processor),
        summary.favano,
        summary.data,
        summary.trace,
        summary.source,
        folder / CHECKPOINTS,
        {name: read_file(folder / name, str) for name in names if (folder / name).exists()},
        read_models(folder / MODEL, [run.seed for run in summary.runs], "folder", _ALL_FILES),
    )


def _read_run_file(path: Path, methods: Methods, execute: bool) -> StoredResult:
    run = read_file(path, run_from_json)
    spec, entry = _spec_of(path, run.spec, methods, execute), run.entry
    return StoredResult(
        path,
        algorithm_of(run.spec, path.stem),
        spec,
        "complete",
        {entry.seed: "complete"},
        rows_by_seed(run.history),
        {entry.seed: final_cells(entry)},
        Toolchain(run.torch, run.kernels, run.processor),
        run.favano,
        run.data,
        None if spec is None else files_digest(spec),
        None if spec is None else source_digest(spec.method),
        path.with_suffix(f".{CHECKPOINTS}"),
        {RUN_FILE: read_file(path, str)},
        run_file=run,
    )
