"""Makes runs that are missing in an archive, in one pool of lanes per network and data set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Protocol, TypeAlias

from favano.data import NAMES, find
from favano.results import Result, check_writable
from favano.run.backend import THIS_MACHINE, Place, RunTogether
from favano.run.checkpoints import Checkpoints
from favano.run.progress import Progress, Silence
from favano.specification.spec import Spec
from favano.studies.archive import Archive
from favano.studies.experiment import StudyRun
from favano.studies.footprint import Footprint

# Takes the data of a specification to where its runs are made; its second argument is called for
# each decoded image.
Load: TypeAlias = Callable[[Spec, Callable[[int], None]], RunTogether]


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


@dataclass(frozen=True)
class RunMaker:
    """Makes missing runs, and keeps each as soon as it has ended."""

    archive: Archive
    load: Load
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
        for pool in pools(missing):
            first = pool[0].spec
            with self.watcher.decoding(first.problem.dataset) as on_image:
                run_together = self.load(first, on_image)
            size = self.at_once or len(pool)
            for start in range(0, len(pool), size):
                self._train(pool[start : start + size], run_together)

    def _train(self, group: Sequence[StudyRun], run_together: RunTogether) -> None:
        # Before the runs: while they are under way, no machine of a cluster has time to answer.
        footprint, machines = self.footprint(), self.place.size(group[0].spec.run.device)
        with self.watcher.training() as progress:
            meter, specs = StepMeter(progress, machines), [run.spec for run in group]

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


def pools(runs: Sequence[StudyRun]) -> list[list[StudyRun]]:
    """Groups of runs that can share lanes."""
    groups: dict[tuple[object, ...], list[StudyRun]] = {}
    for run in runs:
        problem, part = replace(run.spec.problem, split=None), run.spec.run
        key = (problem, part.device, part.precision, part.buffers, run.spec.training.recipe)
        groups.setdefault(key, []).append(run)
    return list(groups.values())


@dataclass
class StepMeter:
    """Passes progress on, and measures the time of all machines per local step."""

    inner: Progress = field(default_factory=Silence)
    machines: int = 1
    steps: int = 0  # not charged yet
    since: float = 0.0  # the beginning, plus the time already charged

    def begin(self, steps: int) -> None:
        """So many local steps are to be made."""
        self.since = perf_counter()
        self.inner.begin(steps)

    def advance(self, label: str, steps: int, time: float) -> None:
        """So many were made."""
        self.steps += steps
        self.inner.advance(label, steps, time)

    def end(self) -> None:
        """All are made."""
        self.inner.end()

    def charge(self, steps: int) -> float:
        """Machine time of so many steps: their share of the time not charged yet."""
        seconds = (perf_counter() - self.since) * steps / max(1, steps, self.steps)
        self.since += seconds
        self.steps -= steps
        return seconds * self.machines
