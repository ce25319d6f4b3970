"""Makes the runs behind tables and figures that were not made before, side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Protocol

from favano.data import NAMES, find
from favano.errors import need
from favano.records.ledger import TUNED, TUNING
from favano.run.progress import Progress, Silence
from favano.run.result import Result
from favano.run.result_folder import check_writable
from favano.run.runner import run_together
from favano.run.samples import check_device, load_samples, named_model
from favano.specification.spec import Spec
from favano.studies.archive import Archive
from favano.studies.experiment import Experiment, Run
from favano.studies.footprint import Footprint
from favano.studies.request import Request, tuned_part, write_parts


class Stopped(RuntimeError):
    """Somebody pressed Ctrl-C; runs that were through are kept, the others begin anew next time."""


class Watcher(Protocol):
    """Shows how far things are."""

    def beginning(self, missing: int, there: int) -> None:
        """So many runs are to be made, and so many were made before."""

    def decoding(self, dataset: str) -> AbstractContextManager[Callable[[int], None]]:
        """A data set may have to be decoded; what is yielded hears of each image."""

    def training(self) -> AbstractContextManager[Progress]:
        """Runs are made; what is yielded hears of each update."""


def reproduce(
    experiments: Sequence[Experiment],
    request: Request,
    out: Path,
    *,
    data_dir: Path | None,
    footprint: Footprint,
    command: str,
    watcher: Watcher,
    at_once: int | None = None,
) -> None:
    """Make the runs that are missing, then write each experiment's ledgers and curves.

    After Ctrl-C they are written too, of what there is, before `Stopped` is raised.
    """
    need(at_once is None or at_once >= 1, "at_once", at_once, "need 1 or more")
    archive = Archive(out)
    parts = {one.name: request.parts(one) for one in experiments}
    wanted = [run for part in parts.values() for runs in part.values() for run in runs]
    check_all(wanted, out, data_dir)
    make = partial(
        make_runs,
        archive=archive,
        data_dir=data_dir,
        footprint=footprint,
        command=command,
        watcher=watcher,
        at_once=at_once,
    )
    stopped = False
    try:
        make(wanted)
        tuned = [part for part in parts.values() if TUNING in part]
        for part in tuned:
            part[TUNED] = tuned_part(part, archive)
        make([run for part in tuned for run in part[TUNED]])
    except KeyboardInterrupt:
        stopped = True
    for one in experiments:
        folder = request.folder(out, one.name)
        write_parts(folder, parts[one.name], archive, curves=bool(one.figures))
    if stopped:
        raise Stopped


def check_all(runs: Sequence[Run], out: Path, data_dir: Path | None) -> None:
    """Refuse a folder that cannot be written, a device or data that are not there."""
    check_writable(out)
    for device in {run.spec.run.device for run in runs}:
        check_device(device)
    for dataset in {run.spec.problem.dataset for run in runs} - {NAMES[0]}:
        find(dataset, data_dir)


def still_to_make(runs: Sequence[Run], archive: Archive) -> list[Run]:
    """The runs without a result, each specification once."""
    by_digest = {run.digest: run for run in runs}
    return [run for run in by_digest.values() if not archive.has(run)]


def make_runs(
    runs: Sequence[Run],
    archive: Archive,
    *,
    data_dir: Path | None,
    footprint: Footprint,
    command: str,
    watcher: Watcher,
    at_once: int | None,
) -> None:
    """Make what is missing. Each run is kept as soon as it is through.

    Runs that share a network and data go through one pool of lanes, `at_once` of them at a time:
    fewer fill the lanes less well, and are sooner through and safe.
    """
    open_runs = still_to_make(runs, archive)
    watcher.beginning(len(open_runs), len({run.digest for run in runs}) - len(open_runs))
    for pool in _pools(open_runs):
        first = pool[0].spec
        with watcher.decoding(first.problem.dataset) as on_image:
            samples = load_samples(first, data_dir, on_image)
        model = named_model(first, samples)
        size = at_once or len(pool)
        for start in range(0, len(pool), size):
            group = pool[start : start + size]
            with watcher.training() as progress:
                meter = _Meter(progress)
                keep = _Keeper(group, archive, meter, footprint, command)
                specs = [run.spec for run in group]
                results = run_together(
                    specs, samples, model, progress=meter, finished=keep, audits=False
                )
            if any(result.interrupted for result in results):
                raise KeyboardInterrupt


def _pools(runs: Sequence[Run]) -> Iterator[list[Run]]:
    """Runs that can share lanes, together."""

    def alike(spec: Spec) -> tuple[object, ...]:
        run = spec.run
        device = (run.device, run.precision, run.buffers)
        return replace(spec.problem, split=None), *device, spec.training.recipe

    groups: dict[tuple[object, ...], list[Run]] = {}
    for run in runs:
        groups.setdefault(alike(run.spec), []).append(run)
    yield from groups.values()


@dataclass
class _Meter:
    """Passes progress on, and measures what a local step costs in time of the whole machine."""

    inner: Progress = field(default_factory=Silence)
    steps: int = 0  # that nobody has been charged for
    since: float = 0.0  # the beginning, and the time already charged

    def begin(self, steps: int) -> None:
        self.since = perf_counter()
        self.inner.begin(steps)

    def advance(self, label: str, steps: int, time: float) -> None:
        self.steps += steps
        self.inner.advance(label, steps, time)

    def end(self) -> None:
        self.inner.end()

    def charge(self, steps: int) -> float:
        """What so many steps have cost: their share of all that nobody has been charged for yet."""
        seconds = (perf_counter() - self.since) * steps / max(1, steps, self.steps)
        self.since += seconds
        self.steps -= steps
        return seconds


@dataclass(frozen=True)
class _Keeper:
    """Writes a result as soon as its run is through."""

    pool: Sequence[Run]
    archive: Archive
    meter: _Meter
    footprint: Footprint
    command: str

    def __call__(self, result: Result) -> None:
        run = next(run for run in self.pool if run.spec == result.spec)
        seconds = self.meter.charge(result.rows[-1].contributed_steps)
        self.archive.write(run, result, seconds, self.footprint, self.command)
