"""Checkpoints of runs: taken between updates, written in the background, within a budget."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from time import perf_counter

import torch

from favano import __version__
from favano.aggregation import BeyondTheEnd, NoSnapshot
from favano.engine import ServerVersion
from favano.errors import BadInput, NonFiniteUpdate, WriteFailed
from favano.notices import notice
from favano.records import Identity
from favano.records.checkpoint import Tree
from favano.run.checkpoint_files import CheckpointFiles, Say
from favano.run.samples import Samples
from favano.run.seed_run import SeedRun
from favano.specification.digest import flat_keys
from favano.specification.history_start import files_digest
from favano.specification.spec import required

_EVERY = 30.0  # seconds between two checkpoints of a run
SHARE = 0.02  # of the time may be spent on checkpoints
_SPEED = 2e8  # bytes per second, before anything is measured
_AT_LEAST = 0.02  # seconds, for the disk to say that it is done
_LARGEST = 256 << 20  # bytes of a checkpoint that stays after the end of a run
_MAY_DIFFER = ("horizon", "seed", "seeds", "device", "kernels")


@dataclass(frozen=True)
class Checkpoints:
    """Where the checkpoints of several specifications are, and how often they are taken."""

    folders: Sequence[Path]  # one per specification
    every: float | None = None  # seconds; 0: at each evaluation; None: 30, within the budget
    say: Say = notice
    keep_last: bool = True  # after the end of a run, so that it can be made longer
    written: Callable[[CheckpointFiles, Path], None] = lambda files, path: None  # told of each
    rate: float = float("inf")  # bytes per second that may be written, if `every` is None


@dataclass
class Budget:
    """Says whether a checkpoint may be taken now: not too soon, and not too expensive.

    Explicit intervals have no limit of time spent.
    """

    every: float | None
    share: float  # of the time
    clock: Callable[[], float] = perf_counter
    rate: float = float("inf")  # bytes per second
    spent: float = 0.0  # seconds, in the foreground and in the background
    written: int = 0  # bytes
    _cost: float | None = None  # of the last checkpoint
    _began: float = field(init=False)

    def __post_init__(self) -> None:
        self._began = self.clock()

    @property
    def interval(self) -> float:
        """Seconds between two checkpoints of a run."""
        return _EVERY if self.every is None else self.every

    def allows(self, size: int) -> bool:
        """Whether a checkpoint of about so many bytes is within the budget."""
        if self.every is not None:
            return self.every < float("inf")
        cost = _AT_LEAST + size / _SPEED if self._cost is None else self._cost
        passed = self.clock() - self._began
        if self.written + size > self.rate * passed:
            return False
        return self.spent + cost <= self.share * passed

    def charge(self, seconds: float, size: int = 0) -> None:
        """A checkpoint has taken so long, and so many bytes."""
        self.spent += seconds
        self.written += size
        self._cost = seconds


class CheckpointManager:
    """Saves the runs of one pool, and lets them go on from what was saved."""

    def __init__(
        self,
        checkpoints: Checkpoints,
        runs: Sequence[SeedRun],
        folders: Sequence[Path],  # one per run
        samples: Samples,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        self._settings, self._clock = checkpoints, clock
        self._budget = Budget(checkpoints.every, SHARE, clock, checkpoints.rate)
        self._files = {
            run: CheckpointFiles(folder, run.planned.seed)
            for run, folder in zip(runs, folders, strict=True)
        }
        self._began = clock()
        self._last = dict.fromkeys(runs, self._began)  # when each run was saved
        self._seen = {run: run.recorder.count for run in runs}  # evaluations by then
        self._not_again: set[SeedRun] = set()  # runs that are not saved any more
        self._thread = ThreadPoolExecutor(1, "checkpoints")  # begins with the first checkpoint
        self._writing: Future[None] | None = None
        self._failed = False
        self._identity = cache(lambda run: identity_of(run, samples))

    def resume(self) -> None:
        """Let all runs that have checkpoints go on from the newest ones."""
        for run in self._files:
            try:
                run.check_savable()
            except NoSnapshot as error:
                self._give_up(run, error)
        going_on = [run for run in self._files if self._resume(run)]
        if going_on:
            first = min(going_on, key=lambda run: run.time)
            horizon, runs = required(first.planned.spec.run.horizon), "goes on"
            if len(self._files) > 1:
                runs = f"{len(going_on)} of {len(self._files)} runs go on, the first"
            self._settings.say(f"{runs} at time {first.time:,.0f} of {horizon:,.0f}")

    def _resume(self, run: SeedRun) -> bool:
        files, say = self._files[run], self._settings.say
        content = files.newest(lambda: self._identity(run), say)
        if content is None:
            return False
        try:
            run.restore(content)
        except BeyondTheEnd:
            rule = f"{files.folder} holds checkpoints of a longer run; remove them, or choose"
            horizon = run.planned.spec.run.horizon
            raise BadInput("horizon", horizon, f"{rule} a new folder") from None
        except NoSnapshot as error:
            say(f"{run.label} begins anew: its checkpoint cannot be used, since {error}")
            files.keep(0)
            return False
        self._seen[run] = run.recorder.count
        return True

    def offer(self, run: SeedRun, event: ServerVersion | NonFiniteUpdate) -> None:
        """Save a run at this moment, if it is time."""
        if isinstance(event, NonFiniteUpdate):  # the run has ended
            self._wait()
        elif run.over:
            self._save_last(run, event)
            self._wait()
            self._files[run].keep(1)
        elif run.aggregator.nearly_over:
            self._save_last(run, event)
        elif self._is_due(run) and self._budget.allows(run.largest_checkpoint):
            self._save(run, event)

    def _is_due(self, run: SeedRun) -> bool:
        interval = self._budget.interval
        if not interval:
            return self._seen[run] < run.recorder.count
        return self._clock() - self._last[run] >= interval and not self._busy

    def _save_last(self, run: SeedRun, event: ServerVersion) -> None:
        """Save a run before its last update, or else at its end, so that it can be made longer.

        With a longer horizon other clients may begin after the last update, but none before it.
        """
        size = run.largest_checkpoint
        wanted = self._settings.keep_last and run not in self._not_again
        if not wanted or not self._budget.allows(size):
            return
        if size > _LARGEST:
            self._not_again.add(run)
            self._settings.say(
                f"{run.label}: no checkpoint of its end is kept, since it may have "
                f"{size >> 20} MiB; a longer run would begin anew"
            )
            return
        self._save(run, event)
        self._not_again.add(run)

    @property
    def _busy(self) -> bool:
        return self._writing is not None and not self._writing.done()

    def _save(self, run: SeedRun, event: ServerVersion) -> None:
        if event.version < 0 or run in self._not_again:
            return
        self._wait()
        began = self._clock()
        try:
            content = run.saved(event, self._machine_seconds(run))
        except NoSnapshot as error:
            self._give_up(run, error)
            return
        self._last[run], self._seen[run] = self._clock(), run.recorder.count
        taken = self._last[run] - began
        self._writing = self._thread.submit(self._write, run, event.version, content, taken)

    def _machine_seconds(self, run: SeedRun) -> float:
        """The share of a run in the time so far, by local steps."""
        share = run.steps / max(1, sum(each.steps for each in self._files))
        return (self._clock() - self._began) * share

    def _write(self, run: SeedRun, version: int, content: Tree, taken: float) -> None:
        began, size = self._clock(), 0
        try:
            path = self._files[run].write(version, self._identity(run), content)
            size = path.stat().st_size
            self._settings.written(self._files[run], path)
        except WriteFailed as error:
            self._warn(str(error))
        self._budget.charge(taken + self._clock() - began, size)

    def _give_up(self, run: SeedRun, reason: NoSnapshot) -> None:
        """Do not save this run."""
        self._not_again.add(run)
        self._warn(f"{run.label}: {reason}")

    def _warn(self, reason: str) -> None:
        """Say once that checkpoints fail; the runs go on."""
        if not self._failed:
            self._settings.say(f"no checkpoint: {reason}; the run goes on without it")
        self._failed = True

    def _wait(self) -> None:
        if self._writing is not None:
            self._writing.result()

    def close(self) -> None:
        """Wait for the last checkpoint."""
        self._thread.shutdown()
        self._wait()


def identity_of(run: SeedRun, samples: Samples) -> Identity:
    """What must be equal for a run to go on: all but its horizon."""
    spec, flat = run.result.spec, run.flat
    others = {"horizon"} if spec.is_of_one_horizon else set()
    keys = {k: value for k, value in flat_keys(spec).items() if k not in {*_MAY_DIFFER} - others}
    return {
        "specification": json.loads(json.dumps(keys, default=str)),  # as in the file
        "method": spec.source or spec.method.name,
        "seed": str(run.planned.seed),
        "data": _digest(f"{samples.digest} {files_digest(spec)}".encode()),
        **run.code,
        "device": flat.vector.device.type,
        "kernels": run.kernels or "",
        "numbers": str(flat.vector.dtype),
        "version of favano": __version__,
        "version of PyTorch": torch.__version__,
    }


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
