"""Runs of a result, repeated and compared with what its files state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory
from typing import NamedTuple, cast

import torch

from favano.errors import BadInput, require
from favano.metrics import client_metrics
from favano.planning.participation import participation_of
from favano.planning.planned import plan_seed
from favano.records import RunRecord, metric_names, worst
from favano.records.folder import CHECKPOINTS
from favano.results import Result
from favano.results.digest_check import row_name
from favano.run.checkpoint_files import CheckpointFiles
from favano.run.checkpoints import Checkpoints
from favano.run.inputs import RunInputs
from favano.run.job_cost import job_cost
from favano.run.own_data import read_data
from favano.run.problem import Problem
from favano.run.progress import Progress
from favano.run.row_comparison import RowComparison, Seed
from favano.run.run_kernels import hardware
from favano.run.runner import run_together
from favano.run.samples import Samples, check_device, named_model
from favano.run.stored_result import StoredResult
from favano.specification.history_start import files_digest, named_files
from favano.specification.presets import OWN
from favano.specification.spec import Spec, required
from favano.training import check_kernels
from favano.types import Kernels

_NOT_NAMED = (
    "was made with a network, data or metrics of its own; verify it from Python, by "
    "favano.verify(folder, favano.Problem(...))"
)


class Repeated(NamedTuple):
    """What the repeated runs of a result gave."""

    result: Result
    other_tools: str  # why bits may differ; empty if they must not


@dataclass
class Repetition:
    """Repeats the runs of results, one result after the other."""

    problem: Problem  # says more than a specification can: a network, data, metrics
    progress: Progress | None
    from_checkpoints: bool
    _samples: dict[object, Samples] = field(init=False, default_factory=dict)

    def repeat(self, stated: StoredResult, seeds: Mapping[int, Seed]) -> Repeated:
        """Repeat those of these seeds in which nothing is wrong yet, and compare their rows."""
        spec = _with_kernels(stated)
        _check_files(stated, spec)
        samples = self._data(stated, spec)
        other_tools = _other_tools(stated, spec)
        model = self.problem.model or named_model(spec, samples)
        comparison = RowComparison(seeds, exact=not other_tools)
        right = [number for number, seed in seeds.items() if seed.difference is None]
        with _oldest_checkpoints(stated) if self.from_checkpoints else nullcontext() as kept:
            try:
                (result,) = run_together(
                    [spec],
                    samples,
                    model,
                    progress=self.progress,
                    on_evaluate=comparison,
                    checkpoints=kept,
                    audits=not stated.result.lean,
                    seeds=[right],
                )
            except BadInput as error:
                if error.name != CHECKPOINTS:
                    raise
                rule = "was made by other versions than those here; verify the result in full"
                raise BadInput(CHECKPOINTS, stated.path / CHECKPOINTS, rule) from error
        if result.interrupted:
            raise KeyboardInterrupt
        for number in right:
            _note_missing(seeds[number], 0 if kept is None else len(seeds[number].rows))
        if result.participation is None and not stated.result.lean:
            cost = job_cost(spec, samples, model)
            first = plan_seed(spec, spec.run.seed, samples.traits, cost)
            result.participation = participation_of(first)
        return Repeated(_as_ended(result, stated), other_tools)

    def _data(self, stated: StoredResult, spec: Spec) -> Samples:
        """The data of a result; refused if something that it was made of is not here."""
        problem, part = self.problem, spec.problem
        require(part.dataset != OWN or problem.is_own, "folder", stated.path, _NOT_NAMED)
        require(part.model != OWN or problem.model is not None, "folder", stated.path, _NOT_NAMED)
        require(part.split != OWN or problem.part.split == OWN, "folder", stated.path, _NOT_NAMED)
        samples = self._loaded(spec)
        stated_names = metric_names(stated.result.rows)
        # A network with a loss of its own may have none.
        known = samples.metrics if stated_names or "metrics" not in samples.open else {}
        names = tuple(metric.name for metric in client_metrics(known, spec.run.evaluate_on))
        alike = stated_names == names
        require(alike, "folder", stated.path, _NOT_NAMED)
        rule = f"the data are not those of {stated.path}"
        require(stated.result.summary.data in (None, samples.digest), "dataset", part.dataset, rule)
        return samples

    def _loaded(self, spec: Spec) -> Samples:
        """The data of a specification, loaded once."""
        key = spec.problem, check_device(spec.run.device)
        if key not in self._samples:
            problem = self.problem.as_in(spec.problem)
            data = read_data(problem) if problem.is_own else None
            self._samples[key] = RunInputs.of(problem, data).samples(spec.run.device)
        return self._samples[key]


def _as_ended(result: Result, stated: StoredResult) -> Result:
    """The result of the repeated runs, with those that were interrupted named as such."""
    runs = [
        replace(run, status="partial") if _was_interrupted(stated, run) else run
        for run in result.runs
    ]
    asked, statuses = required(stated.spec).run.seeds, [run.status for run in runs]
    if len(runs) < asked:
        statuses.append("partial")
    status = worst(statuses)
    ended = result.with_spec(required(stated.spec))
    ended.summary.runs, ended.summary.status = tuple(runs), status
    ended.summary.cost = stated.result.summary.cost
    if status == "partial":
        ended.summary.audit = ended.summary.served = None
    return ended


def _was_interrupted(stated: StoredResult, run: RunRecord) -> bool:
    return run.status == "stopped" and stated.ends[run.seed].status == "partial"


def _check_files(stated: StoredResult, spec: Spec) -> None:
    """Refuse to repeat a run whose files have changed: step times, a split, a method."""
    rule = f"has changed since {stated.path} was made"
    same = spec.source == stated.result.summary.source
    names = ", ".join(part.import_path or part.name for part in spec.own_parts)
    require(same, "algorithm", names or spec.method.name, rule)
    named = ", ".join(named_files(spec))
    require(files_digest(spec) == stated.result.summary.trace, "files", named, rule)


def _with_kernels(stated: StoredResult) -> Spec:
    """The specification with the kernels that were used, if they are here."""
    spec, kernels = required(stated.spec), cast("Kernels | None", stated.result.summary.kernels)
    if kernels is None or spec.run.device != "cpu":
        return spec
    try:
        return replace(spec, run=replace(spec.run, kernels=check_kernels(kernels)))
    except BadInput:
        return spec


def _other_tools(stated: StoredResult, spec: Spec) -> str:
    """The tools that are not those of the result, in words; empty if the bits must be the same."""
    if spec.run.device != "cpu":
        return "a GPU adds numbers in any order"
    there = stated.result.summary
    pairs = {
        "PyTorch": (there.torch, torch.__version__),
        "kernels": (there.kernels, spec.run.kernels),
        "processor": (there.processor, hardware(spec.run.device)),
    }
    return ", ".join(
        f"{name} {old or 'unknown'} there, {new} here"
        for name, (old, new) in pairs.items()
        if old != new
    )


def _note_missing(seed: Seed, otherwise: int) -> None:
    """Note a row that the repeated run does not have; without any it began at `otherwise`."""
    place = (otherwise if seed.first is None else seed.first) + seed.compared
    if seed.difference is None and place < len(seed.rows):
        seed.difference = f"{row_name(seed.rows, place)} is not in the run made here"


@contextmanager
def _oldest_checkpoints(stated: StoredResult) -> Iterator[Checkpoints]:
    """Copies of the oldest checkpoints of a result: nothing may be written beside it."""
    with TemporaryDirectory() as name:
        folder = Path(name) / CHECKPOINTS
        folder.mkdir()
        for seed in stated.rows:
            for path in CheckpointFiles(stated.path / CHECKPOINTS, seed).paths()[-1:]:
                copyfile(path, folder / path.name)
        there = any(folder.iterdir())
        require(there, "folder", stated.path, "holds no checkpoints; verify it in full")
        yield Checkpoints([folder], inf, lambda sentence: None, keep_last=False)
