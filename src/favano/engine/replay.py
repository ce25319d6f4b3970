"""One run of one method, update by update along its schedule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Generic, NamedTuple, TypeAlias, cast

import numpy as np
import torch
from torch import Tensor

from favano.engine.aggregation import is_blend
from favano.engine.link import Link
from favano.engine.run_models import RunModels
from favano.errors import NonFiniteUpdate, need
from favano.methods import Answers, AnyMethod, Method
from favano.methods.method import S
from favano.schedule import Course, Foreseen, Schedule
from favano.training import Layout, Trainer, Work, finite_rows
from favano.types import Buffers, Floats, Ints, NonFinite, Stack, Vector

StepSizes: TypeAlias = Callable[[Schedule], Floats]  # of schedules that grow

NOBODY: Ints = np.empty(0, dtype=np.int64)
_PIECE = 1 << 15  # parameters that an update handles at once on a CPU


class Measurement(NamedTuple):
    """Measurements of one server version."""

    numbers: Tensor  # (4,) loss, accuracy, variance and potential
    server: Vector  # a copy
    mean: Vector  # of all models


class Moment(NamedTuple):
    """The run after an update; version -1 is the initial model."""

    version: int
    server: Vector
    refused: Ints  # clients whose answer has NaN or infinity
    measured: Measurement | None = None  # if evaluated together with other runs


class Replay(Generic[S]):
    """Everything about a run except local training, which may be done in any order.

    The engine asks for the jobs of an update, their start models and their work, and passes their
    end models to `update`, update after update.
    """

    def __init__(
        self,
        method: Method[S],  # bound to the run
        schedule: Schedule | Course,
        layout: Layout,
        rates: Floats | StepSizes,  # (J,) step size of each job
        initial: Vector,
        *,
        non_finite: NonFinite = "stop",
        buffers: Buffers = "average",
        link: Link | None = None,  # None: models are sent in full
    ) -> None:
        self.method, self.layout, self._rates = method, layout, rates
        self.course = Foreseen(schedule) if isinstance(schedule, Schedule) else schedule
        self.schedule = self.course.schedule
        self.store = RunModels(self.course, initial, link)
        self.moment = Moment(-1, initial, NOBODY)
        self.state = method.init(initial[: layout.parameters])
        self.corrected, self.blends = method.corrects, is_blend(cast(AnyMethod, method))
        self._memory: dict[int, Vector] = {}  # of clients, from job to job
        if method.memory:
            rule = "has clients with a memory, which must not continue before their answer is used"
            need(_used_before_next(self.schedule), "method", method.name, rule)
        self.non_finite, self._buffers, self.link = non_finite, buffers, link

    @property
    def rates(self) -> Floats:
        """Step sizes of all jobs that are known so far."""
        return self._rates(self.schedule) if callable(self._rates) else self._rates

    def jobs(self, version: int) -> Ints:
        """The jobs that update `version` uses."""
        return self.course.jobs(version)

    def starts(self, jobs: Ints) -> Stack:
        """The start models of these jobs; their start versions must exist."""
        client, parameters, size = (
            self.schedule.client[jobs],
            self.layout.parameters,
            self.layout.size,
        )
        start = self.started(client, self.schedule.base[jobs])
        if self._buffers == "local":
            own = self.store.local_buffers(client, start[:, :size], parameters)
            start[:, parameters:size] = own
        return start

    def started(self, client: Ints, base: Ints) -> Stack:
        """Models that clients start from, each with the client's memory."""
        start = self.store.starts(client, base)
        if not self.method.memory:
            return start
        return torch.cat([start, torch.stack([self._remembered(c) for c in client.tolist()])], 1)

    def start(self, client: int, base: int) -> Vector:
        """The start model of one job with the client's memory; without memory not a copy."""
        start = self.store.start(client, base)
        return torch.cat([start, self._remembered(client)]) if self.method.memory else start

    def _remembered(self, client: int) -> Vector:
        """The client's memory; zeros before its first job."""
        if client not in self._memory:
            length = self.method.memory * self.layout.parameters
            self._memory[client] = self.moment.server.new_zeros(length)
        return self._memory[client]

    def work(self, jobs: Ints) -> Work:
        """The work of these jobs."""
        plan, client = self.schedule, self.schedule.client[jobs]
        place, steps, drift = plan.first_step[jobs], plan.steps[jobs], self.drift(client)
        return Work(client, place, steps, self.rates[jobs], drift)

    def drift(self, client: Ints) -> Stack | None:
        """The drift correction of clients that start from the newest version."""
        return self.method.drift(self.state, client)

    @property
    def message_bits(self) -> int:
        """Bits of one message, except a client's first model."""
        model = self.layout.bits if self.link is None else self.link.bits
        return model + self._correction_bits

    @property
    def first_message_bits(self) -> int:
        """Bits of a client's first model, which is sent in full."""
        return self.layout.bits + self._correction_bits

    @property
    def _correction_bits(self) -> int:
        """Bits of a drift correction, if one is sent with the model."""
        return self.layout.number_bits * self.layout.parameters * self.corrected

    def update(self, start: Stack, end: Stack, finite: Sequence[bool]) -> Moment:
        """Make the next update from the start and end models of its jobs.

        Answers that are not `finite` are refused, or end the run.
        """
        version = self.moment.version + 1
        jobs, server = self.jobs(version), self.moment.server
        plan, parameters, size = self.schedule, self.layout.parameters, self.layout.size
        if self.method.memory:
            self._remember(plan.client[jobs], end[:, size:], finite)
            start, end = start[:, :size], end[:, :size]
        if self._buffers == "local":
            self.store.keep_buffers(plan.client[jobs], end[:, parameters:])
        refused = NOBODY
        if not all(finite):
            keep = np.array(finite)
            refused = plan.client[jobs[~keep]]
            if self.non_finite == "stop":
                raise NonFiniteUpdate(refused.tolist(), version + 1)
            rows = torch.from_numpy(np.flatnonzero(keep)).to(end.device)
            start, end, jobs = start[rows], end[rows], jobs[keep]
        if len(jobs):
            sent = end if self.link is None else self.link.up(jobs, start, end, server)
            begin, done = start[:, :parameters], sent[:, :parameters]
            answers = self._answers(jobs, version, begin, done)
            self.state = _updated(self.method, self.state, answers, self.blends)
            own = self.method.restart(server, end)
            if own is not None:
                if self.link is not None:
                    received = self.link.reply(jobs, version - 1, server, start, end)
                    own = self.method.restart(received, end)
                    assert own is not None
                self.store.keep_own(plan.client[jobs], self._recounted(own, server, end))
            server = self.state.model
            if self.layout.size > parameters:
                server = torch.cat([server, self._merge_buffers(self.moment.server, end, answers)])
        self._go_on(self.jobs(version))
        self.store.forget_own(refused)
        self.store.put(version, server)
        self.moment = Moment(version, server, refused)
        return self.moment

    def _go_on(self, jobs: Ints) -> None:
        """Extend a schedule that depends on the updates."""
        self.course.go_on(self.method.next_steps(self.state, self.schedule.client[jobs]))
        self.schedule = self.course.schedule

    def _answers(self, jobs: Ints, version: int, start: Stack, end: Stack) -> Answers:
        plan, rates = self.schedule, self.rates
        client, steps, stale = plan.client[jobs], plan.steps[jobs], version - 1 - plan.base[jobs]
        return Answers(client, steps, stale, rates[jobs], version, start, end)

    def _remember(self, client: Ints, memory: Stack, finite: Sequence[bool]) -> None:
        """Keep the memories of these clients; one that is not finite becomes zero."""
        for who, kept, good in zip(client.tolist(), memory, finite, strict=True):
            self._memory.pop(who, None)
            if good:
                self._memory[who] = kept.clone()

    def _recounted(self, own: Stack, server: Vector, end: Stack) -> Stack:
        """Models that clients continue from, with the largest counters."""
        if not self.layout.counters:
            return own
        first = self.layout.size - self.layout.counters
        return torch.cat([own[:, :first], torch.maximum(server[first:], end[:, first:])], dim=1)

    def _merge_buffers(self, server: Vector, end: Stack, answers: Answers) -> Vector:
        """The server's buffers, averaged as the method says, and the largest counters."""
        first = self.layout.parameters
        last = first + self.layout.buffers
        if self._buffers == "local":
            return server[first:]
        averaged = self.method.average(server[first:last], end[:, first:last], answers)
        counters = torch.maximum(server[last:], end[:, last:].amax(dim=0))
        return torch.cat([averaged, counters])


def _used_before_next(schedule: Schedule) -> bool:
    """Whether each job starts from a version that includes the client's last answer."""
    used = slice(0, schedule.jobs)
    order = np.lexsort((schedule.first_step[used], schedule.client[used]))
    client, base, visit = (a[used][order] for a in (schedule.client, schedule.base, schedule.visit))
    return bool((base[1:] >= visit[:-1])[client[1:] == client[:-1]].all())


def _updated(method: Method[S], state: S, answers: Answers, blends: bool) -> S:
    """The state after an update.

    Blends treat every parameter alike. On a CPU they get one piece of a large model at a time, so
    that intermediate results stay in the cache.
    """
    start, end = answers.start, answers.end
    size = start.shape[1]
    if start.is_cuda or size <= _PIECE or not blends:
        return method.update(state, answers)
    after, pieces = state, []
    for piece in (slice(first, first + _PIECE) for first in range(0, size, _PIECE)):
        before = state._replace(model=state.model[piece])
        part = replace(answers, start=start[:, piece], end=end[:, piece])
        after = method.update(before, part)
        pieces.append(after.model)
    return after._replace(model=torch.cat(pieces))


def replayed(replay: Replay[S], trainer: Trainer) -> Iterator[Moment]:
    """All server versions one after the other; jobs are trained when their update is due."""
    yield replay.moment
    while (version := replay.moment.version + 1) < replay.schedule.updates:
        jobs = replay.jobs(version)
        start = replay.starts(jobs)
        end = trainer.train(start, replay.work(jobs))
        yield replay.update(start, end, finite_rows(end))
