"""Makes the missing runs of tables and figures, in parallel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Protocol

from favano.data import NAMES, find, is_natural
from favano.errors import require
from favano.notices import notice
from favano.records.folder import RUNS_FOLDER
from favano.records.ledger import RUNS, TUNING
from favano.results import Result, check_writable
from favano.run.backend import THIS_MACHINE, Place, RunTogether
from favano.run.checkpoints import Checkpoints
from favano.run.data import load_data
from favano.run.progress import Progress, Silence
from favano.specification.parts import ProblemPart
from favano.specification.spec import Spec, required
from favano.studies.archive import Archive
from favano.studies.experiment import Experiment, StudyRun, make
from favano.studies.footprint import Footprint
from favano.studies.request import Request, finalists, first_runs, tuned_parts, write_parts


class Stopped(RuntimeError):
    """Ctrl-C was pressed; runs that have ended are kept, the others go on from checkpoints."""


class Watcher(Protocol):
    """Shows the progress of a reproduction."""

    def beginning(self, missing: int, there: int) -> None:
        """`missing` runs are to be made; `there` runs were made before."""

    def decoding(self, dataset: str) -> AbstractContextManager[Callable[[int], None]]:
        """While a data set is loaded; yields a function that is called for each decoded image."""

    def training(self) -> AbstractContextManager[Progress]:
        """While runs are made; yields their progress."""

    def say(self, sentence: str) -> None:
        """Something that the user should know."""


def reproduce(
    experiments: Sequence[Experiment],
    request: Request,
    out: Path,
    *,
    data_dir: Path | None,
    footprint: Callable[[], Footprint],
    command: str,
    watcher: Watcher,
    at_once: int | None = None,
    checkpoint_every: float | None = None,
    place: Place = THIS_MACHINE,
) -> None:
    """Make the missing runs, then write each experiment's ledgers and curves.

    If no run is missing, neither their device nor their data have to be here.
    After Ctrl-C they are written from the runs that have ended, before `Stopped` is raised.
    """
    require(at_once is None or at_once >= 1, "at_once", at_once, "need 1 or more")
    archive = Archive(out)
    if old := len(list(out.glob(f"{RUNS_FOLDER}/*.json"))):
        notice(f"files of an earlier release in {RUNS_FOLDER} are not read: {old}")
    asked = {experiment.name: request.parts(experiment) for experiment in experiments}
    every = [run for part in asked.values() for runs in part.values() for run in runs]
    check_all(still_to_make(every, archive), out, data_dir, place)
    count = _ClientCount(data_dir, watcher)
    parts = {
        name: {file: count.fill(runs) for file, runs in part.items()}
        for name, part in asked.items()
    }
    maker = _RunMaker(
        archive, data_dir, cache(footprint), command, watcher, at_once, checkpoint_every, place
    )
    stopped = False
    try:
        maker.make(
            [
                run
                for experiment in experiments
                for run in first_runs(experiment, parts[experiment.name])
            ]
        )
        for experiment in experiments:
            # Trials may have fewer clients than other runs: held-out samples can be all of one's.
            part = {**parts[experiment.name], RUNS: asked[experiment.name][RUNS]}
            if best := count.fill(finalists(experiment, part, archive)):
                parts[experiment.name][TUNING] += best
                maker.make(best)
        tuned = {
            experiment.name: tuned_parts(experiment, parts[experiment.name], archive)
            for experiment in experiments
        }
        for name, part in tuned.items():
            parts[name] |= part
        maker.make([run for part in tuned.values() for runs in part.values() for run in runs])
    except KeyboardInterrupt:
        stopped = True
    for experiment in experiments:
        folder = request.folder(out, experiment.name)
        write_parts(folder, parts[experiment.name], archive, curves=bool(experiment.figures))
    if stopped:
        raise Stopped


def check_all(
    runs: Sequence[StudyRun], out: Path, data_dir: Path | None, place: Place = THIS_MACHINE
) -> None:
    """Refuse a folder that cannot be written, and devices or data that do not exist."""
    check_writable(out)
    for device in {run.spec.run.device for run in runs}:
        place.size(device)
    for dataset in {run.spec.problem.dataset for run in runs} - {NAMES[0]}:
        find(dataset, data_dir)


def still_to_make(runs: Sequence[StudyRun], archive: Archive) -> list[StudyRun]:
    """The runs without a result, each specification once."""
    by_digest = {run.digest: run for run in runs}
    return [run for run in by_digest.values() if not archive.has(run)]


@dataclass
class _ClientCount:
    """Counts the clients of natural splits, as many as the data in use have."""

    data_dir: Path | None
    watcher: Watcher
    client_counts: dict[ProblemPart, int] = field(default_factory=dict)

    def fill(self, runs: Sequence[StudyRun]) -> list[StudyRun]:
        """The runs with their number of clients, where none is asked for."""
        return [replace(run, spec=self._filled(run.spec)) for run in runs]

    def _filled(self, spec: Spec) -> Spec:
        asked = spec.as_given or spec
        if asked.fleet.clients is not None or not is_natural(required(spec.problem.split)):
            return spec
        if spec.problem not in self.client_counts:
            with self.watcher.decoding(spec.problem.dataset) as on_image:
                data = load_data(spec.problem, self.data_dir, on_image)
            self.client_counts[spec.problem] = data.traits.clients_by(required(spec.problem.split))
        return make(spec, {"clients": self.client_counts[spec.problem]})


@dataclass(frozen=True)
class _RunMaker:
    """Makes missing runs, and keeps each as soon as it has ended."""

    archive: Archive
    data_dir: Path | None
    footprint: Callable[[], Footprint]  # of the machines that make them
    command: str
    watcher: Watcher
    at_once: int | None
    checkpoint_every: float | None
    place: Place

    def make(self, runs: Sequence[StudyRun]) -> None:
        """Runs with the same network and data share lanes, `at_once` runs at a time.

        With fewer runs at a time lanes are less busy, but results are kept sooner.
        """
        missing = still_to_make(runs, self.archive)
        self.watcher.beginning(len(missing), len({run.digest for run in runs}) - len(missing))
        for pool in _pools(missing):
            first = pool[0].spec
            with self.watcher.decoding(first.problem.dataset) as on_image:
                run_together = self.place.load(first, self.data_dir, on_image)
            size = self.at_once or len(pool)
            for start in range(0, len(pool), size):
                self._train(pool[start : start + size], run_together)

    def _train(self, group: Sequence[StudyRun], run_together: RunTogether) -> None:
        # Before the runs: while they are under way, no machine of a cluster has time to answer.
        footprint, machines = self.footprint(), self.place.size(group[0].spec.run.device)
        with self.watcher.training() as progress:
            meter, specs = _Meter(progress, machines), [run.spec for run in group]

            def keep(result: Result) -> None:
                run = next(run for run in group if run.spec == result.spec)
                seconds = meter.charge(result.rows[-1].contributed_steps - result.steps_before)
                seconds += result.seconds_before
                self.archive.write(run, result, seconds, footprint, self.command)
                result.states.clear()  # not kept, and those of thousands of runs do not fit

            results = run_together(
                specs,
                progress=meter,
                finished=keep,
                audits=False,
                checkpoints=self._checkpoints(group),
            )
        if any(result.interrupted for result in results):
            raise KeyboardInterrupt

    def _checkpoints(self, group: Sequence[StudyRun]) -> Checkpoints:
        folders, say = [self.archive.checkpoints(run) for run in group], self.watcher.say
        return Checkpoints(folders, self.checkpoint_every, say, keep_last=False)


def _pools(runs: Sequence[StudyRun]) -> list[list[StudyRun]]:
    """Groups of runs that can share lanes."""
    groups: dict[tuple[object, ...], list[StudyRun]] = {}
    for run in runs:
        problem, part = replace(run.spec.problem, split=None), run.spec.run
        key = (problem, part.device, part.precision, part.buffers, run.spec.training.recipe)
        groups.setdefault(key, []).append(run)
    return list(groups.values())


@dataclass
class _Meter:
    """Passes progress on, and measures the time of all machines per local step."""

    inner: Progress = field(default_factory=Silence)
    machines: int = 1
    steps: int = 0  # not charged yet
    since: float = 0.0  # the beginning, plus the time already charged

    def begin(self, steps: int) -> None:
        self.since = perf_counter()
        self.inner.begin(steps)

    def advance(self, label: str, steps: int, time: float) -> None:
        self.steps += steps
        self.inner.advance(label, steps, time)

    def end(self) -> None:
        self.inner.end()

    def charge(self, steps: int) -> float:
        """Machine time of so many steps: their share of the time not charged yet."""
        seconds = (perf_counter() - self.since) * steps / max(1, steps, self.steps)
        self.since += seconds
        self.steps -= steps
        return seconds * self.machines
