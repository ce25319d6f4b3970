"""One run of one algorithm, advanced update by update along its schedule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from favano.algorithms.base import Algorithm, S, Visit
from favano.engine.aggregation import is_linear
from favano.engine.link import Link
from favano.engine.run_models import RunModels
from favano.errors import NonFiniteUpdate, need
from favano.schedule import Course, Foreseen, Schedule
from favano.training import Layout, Trainer, Work, finite_rows
from favano.types import Buffers, Floats, Ints, NonFinite, Stack, Vector

StepSizes: TypeAlias = Callable[[Schedule], Floats]  # of schedules that grow

_NOBODY: Ints = np.empty(0, dtype=np.int64)
_PIECE = 1 << 15  # parameters of an update on a CPU that are handled at once


class Measurement(NamedTuple):
    """Measurements of one server version."""

    numbers: Tensor  # (4,) loss, accuracy, variance and potential
    server: Vector  # a copy
    mean: Vector  # of all models


class Moment(NamedTuple):
    """The run right after an update; version -1 is the beginning."""

    version: int
    server: Vector
    refused: Ints  # clients whose update held NaN or infinity
    measured: Measurement | None = None  # if evaluated together with other runs


class Replay(Generic[S]):
    """Everything about a run except local training, which may be done by anyone, in any order.

    The trainer asks for the jobs of an update, their start models and their work, and hands in
    their end models, update after update.
    """

    def __init__(
        self,
        algorithm: Algorithm[S],
        schedule: Schedule | Course,
        layout: Layout,
        rates: Floats | StepSizes,  # (J,) step size of each job
        initial: Vector,
        *,
        non_finite: NonFinite = "stop",
        buffers: Buffers = "average",
        link: Link | None = None,  # None: models travel as they are
    ) -> None:
        self.algorithm, self.layout, self._rates = algorithm, layout, rates
        self.course = Foreseen(schedule) if isinstance(schedule, Schedule) else schedule
        self.schedule = self.course.schedule
        self.store = RunModels(self.course, initial, link)
        self.moment = Moment(-1, initial, _NOBODY)
        self.state = algorithm.init(initial[: layout.parameters])
        self.corrected = self.drift(_NOBODY) is not None
        if self.corrected:
            name = type(algorithm).__name__
            rule = "corrects gradients (drift), so its clients must all start from the newest model"
            need(self._from_newest(initial), "algorithm", name, rule)
        self.non_finite, self._buffers, self.link = non_finite, buffers, link

    @property
    def rates(self) -> Floats:
        """Step sizes of the jobs that are known."""
        return self._rates(self.schedule) if callable(self._rates) else self._rates

    def jobs(self, version: int) -> Ints:
        """The jobs that update `version` uses."""
        return self.course.jobs(version)

    def starts(self, jobs: Ints) -> Stack:
        """Their start models, as soon as the versions they start from exist."""
        plan, parameters = self.schedule, self.layout.parameters
        start = self.store.starts(plan.client[jobs], plan.base[jobs])
        if self._buffers == "local":
            start[:, parameters:] = self.store.local_buffers(plan.client[jobs], start, parameters)
        return start

    def work(self, jobs: Ints) -> Work:
        """What is to be done from there."""
        plan, client = self.schedule, self.schedule.client[jobs]
        place, steps, drift = plan.first_step[jobs], plan.steps[jobs], self.drift(client)
        return Work(client, place, steps, self.rates[jobs], drift)

    def drift(self, client: Ints) -> Stack | None:
        """What is added to the gradients of clients that start from the newest version."""
        return self.algorithm.drift(self.state, client)

    def _from_newest(self, initial: Vector) -> bool:
        """Whether every job starts from the model that its update changes."""
        planned = self.course.complete and not self.schedule.staleness.any()
        return planned and self.algorithm.restart(initial, initial[None]) is None

    @property
    def message_bits(self) -> int:
        """Bits of one message, other than a client's first model."""
        model = self.layout.bits if self.link is None else self.link.bits
        return model + self._correction_bits

    @property
    def first_message_bits(self) -> int:
        """Bits of a client's first model, which comes in full."""
        return self.layout.bits + self._correction_bits

    @property
    def _correction_bits(self) -> int:
        """Of a correction of the parameters, where one travels beside the model."""
        return self.layout.number_bits * self.layout.parameters * self.corrected

    def update(self, start: Stack, end: Stack, finite: Sequence[bool]) -> Moment:
        """The next update, from the start and end models of its jobs, and which may be used."""
        version = self.moment.version + 1
        jobs, server = self.jobs(version), self.moment.server
        plan, parameters = self.schedule, self.layout.parameters
        if self._buffers == "local":
            self.store.keep_buffers(plan.client[jobs], end[:, parameters:])
        refused = _NOBODY
        if not all(finite):
            keep = np.array(finite)
            refused = plan.client[jobs[~keep]]
            if self.non_finite == "stop":
                raise NonFiniteUpdate(refused.tolist(), version + 1)
            rows = torch.from_numpy(np.flatnonzero(keep)).to(end.device)
            start, end, jobs = start[rows], end[rows], jobs[keep]
        if len(jobs):
            visit = self._visit(jobs, version)
            sent = end if self.link is None else self.link.up(jobs, start, end, server)
            begin, done = start[:, :parameters], sent[:, :parameters]
            self.state = _updated(self.algorithm, self.state, visit, begin, done)
            own = self.algorithm.restart(server, end)
            if own is not None:
                if self.link is not None:
                    received = self.link.reply(jobs, version - 1, server, start, end)
                    own = self.algorithm.restart(received, end)
                    assert own is not None
                self.store.keep_own(plan.client[jobs], self._recounted(own, server, end))
            server = self.state.model
            if self.layout.size > parameters:
                server = torch.cat([server, self._merge_buffers(self.moment.server, end, visit)])
        self._go_on(self.jobs(version))
        self.store.forget_own(refused)
        self.store.put(version, server)
        self.moment = Moment(version, server, refused)
        return self.moment

    def _go_on(self, jobs: Ints) -> None:
        """Extend a schedule that depends on the updates."""
        client = self.schedule.client[jobs]
        self.course.go_on(self.algorithm.next_steps(self.state, client))
        self.schedule = self.course.schedule

    def _visit(self, jobs: Ints, version: int) -> Visit:
        plan, rates = self.schedule, self.rates
        staleness = version - 1 - plan.base[jobs]
        return Visit(plan.client[jobs], plan.steps[jobs], staleness, rates[jobs], version)

    def _recounted(self, own: Stack, server: Vector, end: Stack) -> Stack:
        """Models that clients go on from, with the counters that the server takes: the largest."""
        if not self.layout.counters:
            return own
        first = self.layout.size - self.layout.counters
        return torch.cat([own[:, :first], torch.maximum(server[first:], end[:, first:])], dim=1)

    def _merge_buffers(self, server: Vector, end: Stack, visit: Visit) -> Vector:
        """Buffers are averaged as the algorithm says; of counters the largest wins."""
        first = self.layout.parameters
        last = first + self.layout.buffers
        if self._buffers == "local":
            return server[first:]
        averaged = self.algorithm.average(server[first:last], end[:, first:last], visit)
        counters = torch.maximum(server[last:], end[:, last:].amax(dim=0))
        return torch.cat([averaged, counters])


def _updated(algorithm: Algorithm[S], state: S, visit: Visit, start: Stack, end: Stack) -> S:
    """The state after an update.

    Methods that blend models treat every parameter alike. On a CPU they are given a piece of a
    large model at a time, so that what they compute on the way stays in the cache.
    """
    size = start.shape[1]
    if start.is_cuda or size <= _PIECE or not is_linear(algorithm):
        return algorithm.update(state, visit, start, end)
    after, pieces = state, []
    for piece in (slice(first, first + _PIECE) for first in range(0, size, _PIECE)):
        before = state._replace(model=state.model[piece])
        after = algorithm.update(before, visit, start[:, piece], end[:, piece])
        pieces.append(after.model)
    return after._replace(model=torch.cat(pieces))


def replayed(replay: Replay[S], trainer: Trainer) -> Iterator[Moment]:
    """All server versions one after the other, each update's jobs trained when it is due."""
    yield replay.moment
    while (version := replay.moment.version + 1) < replay.schedule.updates:
        jobs = replay.jobs(version)
        start = replay.starts(jobs)
        end = trainer.train(start, replay.work(jobs))
        yield replay.update(start, end, finite_rows(end))
