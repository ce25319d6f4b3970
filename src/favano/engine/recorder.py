"""The history of a run: evaluations at given times, and counts of steps and messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor

from favano.aggregation.aggregator import Aggregator
from favano.aggregation.link import first_versions
from favano.engine.model_digests import ModelDigests
from favano.engine.outcomes import uploads_of
from favano.engine.server_version import NOTHING, ClientModelView, Measurement, ServerVersion
from favano.errors import require
from favano.methods.method import S
from favano.records import Row
from favano.records.chain import link
from favano.schedule import Schedule, check_progress_is_known, under_way
from favano.timing import ClientSpeeds, Energy
from favano.timing.ties import latest
from favano.training import Trainer
from favano.types import Floats, Ints, Mask, Vector

_MOST = 10**7  # evaluations of a run

N = TypeVar("N", Floats, Ints)


class Observation(NamedTuple):
    """The models of the last evaluation, and the messages refused or misread so far."""

    server: Vector
    mean: Vector  # of all models
    refused: int  # client updates with NaN or infinity
    wrapped: int  # messages that a codec read wrongly


class Recorded(NamedTuple):
    """The record of a run in the middle."""

    times: Floats  # (k,) of the evaluations so far
    measured: Floats  # (k, m + 3)
    refused: int
    last: Observation | None
    models: list[str]  # (k,) digests of the server models


class MessageSize(NamedTuple):
    """Bits of a message, and of a client's first model."""

    later: int
    first: int


class Counters(NamedTuple):
    """Steps and messages up to each of some times, (k,) each."""

    server_steps: Ints
    local_steps: Ints  # of jobs that have ended, lost ones included
    contributed_steps: Ints  # of jobs that an update has used
    uploads: Ints  # also of client updates that the server drops
    downloads: Ints
    first_downloads: Ints  # the first model of each client


def count_work(plan: Schedule, times: Floats) -> Counters:
    """What has happened by each of these times, whatever comes later.

    A job is a download when it begins; when it ends, it is as many uploads as the schedule says.
    """
    used_at = np.append(plan.time, np.inf)[plan.used_by]
    totals = [
        _up_to(event, amount, times)
        for event, amount in (
            (plan.finish, plan.steps),
            (used_at, plan.steps),
            (plan.finish, uploads_of(plan)),
            (plan.begin, np.ones_like(plan.client)),
            (plan.begin, _first_downloads(plan).astype(np.int64)),
        )
    ]
    return Counters(plan.versions_at(times) + 1, *totals)


def joules(plan: Schedule, energy: Energy, size: MessageSize, times: Floats) -> Floats:
    """What all clients have needed by each of these times, for the work that is counted then.

    Sums are in an order that does not depend on what comes later, so that they are equal to the
    bit whenever they are made.
    """
    order = np.lexsort((plan.start_version, plan.begin, plan.first_step, plan.client))
    step, byte = energy.per_step[plan.client], energy.per_byte[plan.client]
    down = np.where(_first_downloads(plan), size.first, size.later) / 8 * byte
    ended = plan.steps * step + uploads_of(plan) * (size.later / 8) * byte
    spent = _up_to(plan.finish[order], ended[order], times)
    return spent + _up_to(plan.begin[order], down[order], times)


def _first_downloads(plan: Schedule) -> Mask:
    """(J,) whether its client has no model yet that a message could refer to."""
    first: Mask = plan.start_version == first_versions(plan)[plan.client]
    return first


def _up_to(event: Floats, amount: N, times: Floats) -> N:
    """The sum of the amounts of all events up to each of these times."""
    order = np.argsort(event, kind="stable")
    total = np.concatenate([np.zeros(1, amount.dtype), np.cumsum(amount[order])])
    return total[np.searchsorted(event[order], latest(times), side="right")]


def evaluation_times(horizon: float, every: float, last_update: float) -> Floats:
    """0, every, 2 every, ..., the horizon, and the last update if it is after the horizon."""
    rule = f"need {horizon / _MOST:g} or more for horizon={horizon:g}"
    require(horizon <= _MOST * every, "evaluate_every", every, rule)
    grid = np.arange(0.0, horizon, every)
    end = [horizon, last_update] if last_update > horizon else [horizon]
    return np.concatenate([grid, end])


Live: TypeAlias = Callable[[float, ClientModelView], Mapping[int, Vector]]


@dataclass
class Recorder(Generic[S]):
    """Evaluates a run at given times.

    The spread of the clients' models is that of the models that they started from; with `live`,
    which gives the models of clients in training at a time, it is the spread of those.

    The rows are chained by digests, from `start` on.
    """

    run: Aggregator[S]
    seed: int
    times: Floats
    score: Callable[[Vector], Tensor]  # (1 + m,) loss and metrics
    live: Live | None = None
    metrics: Sequence[str] = ("accuracy",)  # their names
    start: str = ""
    energy: Energy | None = None  # that clients need; None: it is not counted
    last: Observation | None = field(init=False, default=None)
    _refused: int = field(init=False, default=0)
    _versions: list[int] | None = field(init=False, default=None)  # evaluated, if all are known
    _measured: list[Tensor] = field(init=False, default_factory=list)
    _models: ModelDigests = field(init=False, default_factory=ModelDigests)
    _rows: list[Row] = field(init=False, default_factory=list)  # made so far
    _latest: list[float] = field(init=False)  # times that are equal to those of the evaluations

    def __post_init__(self) -> None:
        """Find the versions that are evaluated."""
        self._latest = latest(self.times).tolist()
        if self.run.timeline.complete:
            self._versions = self.run.schedule.versions_at(self.times).tolist()

    def observe(self, event: ServerVersion) -> None:
        """Evaluate this version if it is due, without waiting for a GPU."""
        self._refused += len(event.refused)
        for numbers, server, mean, digest in self._measure(event):
            wrapped = 0 if self.run.link is None else self.run.link.wrapped
            self.last = Observation(server, mean, self._refused, wrapped)
            self._measured.append(numbers)
            self._models.add(server, digest)

    def _measure(self, event: ServerVersion) -> Iterator[Measurement]:
        """The measurement at each time before the next update."""
        server, clients, measured = event.server, event.clients, event.measured
        yield from measured
        if measured:
            while not clients.changing and self.due(event.version):
                yield measured[-1]
        if self.due(event.version):
            score = measured[-1].numbers[:-2] if measured else self.score(server)
            while self.due(event.version):
                time = self.next_time
                live = NOTHING if self.live is None else self.live(time, clients)
                spread = clients.spread(server, live, time)
                yield Measurement(torch.cat([score, spread.distances]), server.clone(), spread.mean)

    def saved(self) -> Recorded:
        """What a checkpoint keeps of the record."""
        count, last = self.count, self.last
        measured = torch.stack(self._measured).numpy(force=True) if count else np.empty((0, 0))
        return Recorded(self.times[:count], measured, self._refused, last, [*self._models.all()])

    def restore(self, recorded: Recorded, version: int) -> None:
        """Take over the evaluations up to a version, as far as this run has them, too."""
        self._refused, self.last = recorded.refused, recorded.last
        device = self.run.initial.device
        for time, numbers in zip(recorded.times.tolist(), recorded.measured, strict=True):
            if not self.due(version) or self.times[self.count] != time:
                break
            self._measured.append(torch.from_numpy(numbers).to(device))
        self._models.restore(recorded.models[: self.count])

    @property
    def count(self) -> int:
        """Number of evaluations so far."""
        return len(self._measured)

    @property
    def next_time(self) -> float:
        """The next evaluation is of what has happened by this time."""
        return self._latest[self.count]

    def drop_after(self, count: int) -> None:
        """Keep so many evaluations: the run ends with the last of them."""
        self.forget_after(count)
        self.times = self.times[:count]

    def forget_after(self, count: int) -> None:
        """Keep so many evaluations; those after them are made again."""
        del self._measured[count:], self._rows[count:]
        self._models.drop_after(count)

    def rows(self, first: int = 0) -> list[Row]:
        """One row per evaluation so far, from number `first` on; waits for a GPU."""
        for row in self._unchained(len(self._rows)):
            row = row._replace(model_digest=self._models.all()[len(self._rows)])
            before = self._rows[-1].digest if self._rows else self.start
            self._rows.append(row._replace(digest=link(before, row)))
        return self._rows[first:]

    def _unchained(self, first: int) -> Iterator[Row]:
        """The numbers of each evaluation."""
        if self.count <= first:
            return
        measured = torch.stack(self._measured[first:]).tolist()
        size = MessageSize(self.run.message_bits, self.run.first_message_bits)
        work, needed = self._all_work if self.run.timeline.complete else self._count(size)
        for number, (loss, *values, variance, potential) in enumerate(measured, first):
            whole = int(work.first_downloads[number])
            others = int(work.downloads[number]) - whole
            yield Row(
                seed=self.seed,
                time=float(self.times[number]),
                server_step=int(work.server_steps[number]),
                local_steps=int(work.local_steps[number]),
                bits_up=int(work.uploads[number]) * size.later,
                bits_down=whole * size.first + others * size.later,
                loss=loss,
                metrics=dict(zip(self.metrics, values, strict=True)),
                variance=variance,
                potential=potential,
                contributed_steps=int(work.contributed_steps[number]),
                energy=None if needed is None else float(needed[number]),
            )

    @cached_property
    def _all_work(self) -> tuple[Counters, Floats | None]:
        """The work of a schedule that is known from the start."""
        return self._count(MessageSize(self.run.message_bits, self.run.first_message_bits))

    def _count(self, size: MessageSize) -> tuple[Counters, Floats | None]:
        """The work by each evaluation, as far as it is known, and the energy that it needs."""
        plan, energy = self.run.schedule, self.energy
        needed = None if energy is None else joules(plan, energy, size, self.times)
        return count_work(plan, self.times), needed

    def due(self, version: int) -> bool:
        """Whether the next evaluation is after this version and before the next one."""
        number, timeline = len(self._measured), self.run.timeline
        if number == len(self.times):
            return False
        if self._versions is not None:
            return version >= self._versions[number]
        follows = version + 1
        return follows == timeline.updates or self.next_time < timeline.time(follows)


def live_models(run: Aggregator[S], trainer: Trainer, fleet: ClientSpeeds, seed: int) -> Live:
    """A function of time: the models of all busy clients, each trained up to that time."""
    policy = run.method.run_policy
    check_progress_is_known(policy, fleet)

    def at(time: float, held: ClientModelView) -> Mapping[int, Vector]:
        now = under_way(run.timeline.known, policy, fleet, time=time, seed=seed)
        start = run.memory.starts(now.client, held.of(now.client, time))
        end = trainer.train(start, replace(run.work(now.job), steps=now.steps))
        return dict(zip(now.client.tolist(), end[:, : run.layout.size], strict=True))

    return at
