"""The server's side of one run: what it makes of client updates, server step after server step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Generic, NamedTuple, TypeAlias, cast

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from favano.aggregation.client_memory import ClientMemory
from favano.aggregation.link import Link
from favano.aggregation.server_chain import ServerChain, States
from favano.aggregation.snapshot import (
    BeyondTheEnd,
    NoSnapshot,
    ResumePoint,
    RunMemory,
    Snapshot,
    beginning_digest,
    jobs_under_way,
)
from favano.errors import NonFiniteUpdate
from favano.methods import AnyMethod, ClientUpdates, Method
from favano.methods.arrays import numbers
from favano.methods.method import Expected, S
from favano.preflight.method import check_shape
from favano.schedule import Schedule, Timeline, VirtualClock
from favano.training import Layout, Work, to_device
from favano.types import Floats, Ints, Mask, NonFinite, Stack, Vector

StepSizes: TypeAlias = Callable[[Schedule, int], Floats]  # of each job, from this one on
StepsExpected: TypeAlias = Callable[[Ints], Expected]


class PerUpdate(NamedTuple):
    """One number per client update about its parameters, and one about its buffers, (k,) each."""

    parameters: Floats
    buffers: Floats


NO_INDICES: Ints = np.empty(0, dtype=np.int64)
_PIECE = 1 << 15  # parameters that an update handles at once on a CPU


class Received(NamedTuple):
    """The client updates that go into the next server step."""

    jobs: Ints  # (k,)
    start: Stack  # (k, size), with buffers
    end: Stack
    updates: ClientUpdates  # what the method sees of them
    clients: Ints  # of all client updates, also of those that are refused
    refused: Ints  # clients whose updates are not used
    server_states: States  # of the transforms, after those of client deltas


class Update(NamedTuple):
    """The result of an update."""

    server: Vector
    clients: Ints  # whose updates were used
    own: Stack | None  # models that they continue from, if not the new server model
    refused: Ints  # clients whose updates were not used


def bits_of_message(layout: Layout, coded: int | None, corrected: bool) -> int:
    """Bits of a message: a model, encoded in so many bits or in full, and a drift correction."""
    model = layout.bits if coded is None else coded
    return model + layout.number_bits * layout.parameters * corrected


class Aggregator(Generic[S]):
    """Method, state and rules of one run. It does not know where models are kept."""

    def __init__(
        self,
        method: Method[S],  # bound to the run
        timeline: Schedule | Timeline | VirtualClock,  # a clock, if it grows with the run
        layout: Layout,
        rates: Floats | StepSizes,  # (J,) step size of each job
        initial: Vector,
        *,
        memory: ClientMemory | None = None,  # None: clients keep what the method says
        server: ServerChain | None = None,  # None: the server does what the method says
        non_finite: NonFinite = "stop",
        link: Link | None = None,  # None: models are sent in full
        expected: StepsExpected | None = None,  # of the clients of these jobs, if measured
        scales: Callable[[Ints], PerUpdate] | None = None,  # of what jobs change; None: all of it
    ) -> None:
        self.method, self.layout, self.initial = method, layout, initial
        self.clock = timeline if isinstance(timeline, VirtualClock) else None
        timeline = timeline.timeline if isinstance(timeline, VirtualClock) else timeline
        self.timeline = Timeline.of(timeline) if isinstance(timeline, Schedule) else timeline
        self._step_sizes: StepSizes = rates if callable(rates) else lambda _, first: rates[first:]
        self._rates: Floats = np.empty(0)  # of the jobs that are known so far
        self.state, self.version = method.init(initial[: layout.parameters]), -1
        self.corrected, alone = method.corrects, keeps_one_model(cast(AnyMethod, method))
        self.blends = method.linear and alone
        self._by_distances = method.distances and alone and not method.has("next_client_model")
        self.memory = memory or ClientMemory(method, layout)
        self.memory.check(self.schedule)
        self.non_finite, self.link = non_finite, link
        self.poisons = self._meets_poison()
        self.stopped = False  # set from outside, to end the run early
        self.resume_point: ResumePoint | None = None  # where the run goes on; None: it is new
        self._expected, self._scales = expected, scales
        self._chain = server or ServerChain(method)
        self.server_states = self._chain.init(self.state.model)

    @property
    def schedule(self) -> Schedule:
        """The schedule as far as it is known."""
        return self.timeline.schedule

    @property
    def rates(self) -> Floats:
        """Step sizes of all jobs that are known so far, by number."""
        known = self.timeline.known
        if len(self._rates) < len(known.client):
            # What a method says of a job may change with what is known of others.
            first = 0 if self.method.has("rates") else len(self._rates)
            self._rates = np.append(self._rates[:first], self._step_sizes(known, first))
        return self._rates

    @property
    def ahead(self) -> bool:
        """Whether a job may be trained as soon as it begins.

        Not if buffers stay with the clients: then a job depends on its client's last one.
        """
        return not self.memory.own_buffers

    @property
    def plain(self) -> bool:
        """Whether clients start from nothing but a model."""
        return not (self.memory.vectors or self.corrected) and self.ahead

    @property
    def linear(self) -> bool:
        """Whether an update is a sum of models with weights that do not depend on them."""
        return self.blends and self._as_it_is and self.ahead and self.timeline.complete

    @property
    def by_distances(self) -> bool:
        """Whether an update is a sum of models with weights that depend on their distances."""
        sees_loss = self.clock is not None and "loss" in self.clock.sees
        return self._by_distances and self.plain and self._as_it_is and not sees_loss

    @property
    def _as_it_is(self) -> bool:
        """Whether the server gets the clients' models, and does what the method says."""
        return self.link is None and not self._chain and not self.poisons

    def _meets_poison(self) -> bool:
        """Whether any client may send something else than its model."""
        scale = self.schedule.scale
        if self.clock is None:
            return scale is not None and bool((scale != 1).any())
        faults = self.method.context.fleet.conditions.faults
        return any(fault.what == "poison" for fault in faults)

    @property
    def over(self) -> bool:
        """Whether the run has ended: all updates are made, or it was stopped."""
        return self.stopped or (self.timeline.ended and self.version + 1 == self.timeline.updates)

    @property
    def knows_next(self) -> bool:
        """Whether it is known when the newest version is replaced, or that it is the last one."""
        return self.timeline.ended or self.version + 1 < self.timeline.updates

    @property
    def nearly_over(self) -> bool:
        """Whether one update is left, as far as this is known."""
        return self.timeline.complete and self.version + 2 == self.timeline.updates

    def work(self, jobs: Ints) -> Work:
        """The work of these jobs; corrected gradients are those of the newest version."""
        known = self.timeline.known
        client, place, steps = known.client[jobs], known.first_step[jobs], known.steps[jobs]
        correction, before = self.gradient_correction(client), self.memory.steps_before(client)
        return Work(client, place, steps, self.rates[jobs], correction, before)

    def gradient_correction(self, client: Ints) -> Stack | None:
        """The drift correction of clients that start from the newest version."""
        return self.method.gradient_correction(self.state, client)

    def memory_now(self) -> RunMemory:
        """What a snapshot keeps of the run, apart from the models in use."""
        timeline, version = self.timeline, self.version
        beginning = beginning_digest(timeline, self.rates, version)
        values = None if self.clock is None else self.clock.learnt
        return self.remembered()._replace(beginning=beginning, values=values)

    def remembered(self) -> RunMemory:
        """The same without the timeline of the run."""
        link = self.link
        return RunMemory(
            beginning="",
            values=None,
            state=self.state._replace(model=self.initial[:0]),
            server=self.server_states,
            clients=self.memory.kept,
            last_reply={} if link is None else dict(link.last_reply),
            wrapped=None if link is None else link.wrapped,
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Take over a snapshot, or refuse it and change nothing."""
        memory, timeline, version = snapshot.memory, self.timeline, snapshot.version
        clock = self.clock
        if clock is not None and memory.values is not None:
            clock = clock.again(memory.values)
            timeline = clock.timeline
        if version >= timeline.updates:
            raise BeyondTheEnd("it is beyond the end of this run")
        if (
            beginning_digest(timeline, self._step_sizes(timeline.known, 0), version)
            != memory.beginning
        ):
            raise NoSnapshot("its schedule or its step sizes begin otherwise")
        self.resume_point = jobs_under_way(timeline, snapshot)
        self.memory.check_growth(timeline, 0)
        self.clock, self.timeline, self._rates = clock, timeline, np.empty(0)
        model = to_device(snapshot.models[snapshot.server], self.initial)
        self.take_over(memory, version, model)

    def take_over(self, memory: RunMemory, version: int, model: Vector) -> None:
        """Take over what the same run remembered at a version, with its server model."""
        self.version = version
        self.state = cast(S, memory.state._replace(model=model[: self.layout.parameters]))
        self.server_states = memory.server
        self.memory.restore(memory.clients)
        if self.link is not None:
            self.link.restore(memory.last_reply, memory.wrapped or 0)

    @property
    def message_bits(self) -> int:
        """Bits of one message, except a client's first model."""
        coded = None if self.link is None else self.link.bits
        return bits_of_message(self.layout, coded, self.corrected)

    @property
    def first_message_bits(self) -> int:
        """Bits of a client's first model, which is sent in full."""
        return bits_of_message(self.layout, None, self.corrected)

    def refuse(self, jobs: Ints, finite: Mask, server: Vector) -> Ints:
        """Clients of the next update whose updates must not be used; ends the run if so asked."""
        if finite.all():
            return NO_INDICES
        refused = self.timeline.known.client[jobs[~finite]]
        if self.non_finite == "stop":
            if not server.isfinite().all():  # no client is to blame
                raise NonFiniteUpdate([], self.version + 1, self.timeline.time(self.version))
            time = self.timeline.time(self.version + 1)
            raise NonFiniteUpdate(refused.tolist(), self.version + 2, time)
        return refused

    def update(self, server: Vector, start: Stack, end: Stack, finite: Mask) -> Update:
        """Make the next update from the old server model, and start and end models of its jobs.

        Client updates that are not `finite` are refused, or end the run.
        """
        return self.apply(server, self.transformed(self.received(server, start, end, finite)))

    def received(self, server: Vector, start: Stack, end: Stack, finite: Mask) -> Received:
        """What the server gets of the jobs of the next update."""
        jobs = self.timeline.jobs(self.version + 1)
        everyone, refused = self.timeline.known.client[jobs], self.refuse(jobs, finite, server)
        if len(refused):
            rows = torch.from_numpy(np.flatnonzero(finite)).to(end.device)
            start, end, jobs = start[rows], end[rows], jobs[finite]
        if self.memory.own_buffers and len(jobs):
            known = self.timeline.known
            who, steps = known.client[jobs], known.steps[jobs]
            end = self.memory.with_end_buffers(who, steps, start, end)
        link, sent = self.link if len(jobs) else None, self.sent(jobs, start, end)
        sent = sent if link is None else link.up(jobs, start, sent, server)
        parameters = self.layout.parameters
        updates = self._client_updates(jobs, start[:, :parameters], sent[:, :parameters])
        return Received(jobs, start, end, updates, everyone, refused, self.server_states)

    def sent(self, jobs: Ints, start: Stack, end: Stack) -> Stack:
        """What the clients send as end models: poisoned ones multiply what parameters change by.

        Buffers are sent as they are, and clients that go on from their own model keep the true one.
        """
        scale = self.timeline.known.scale if self.poisons else None
        if scale is None:
            return end
        rows, factor = np.flatnonzero(scale[jobs] != 1), scale[jobs]
        if not len(rows):
            return end
        at, sent, part = to_device(rows, end), end.clone(), slice(self.layout.parameters)
        by = to_device(factor[rows], end).to(end)[:, None]
        sent[at, part] = start[at, part] + by * (end[at, part] - start[at, part])
        return sent

    def finite_as_sent(self, jobs: Ints, start: Stack, end: Stack, finite: Mask) -> Mask:
        """Which of these client updates are finite, given which of their end models are."""
        if not self.poisons:
            return finite
        rows = self.sent(jobs, start, end).isfinite().all(dim=1)
        both: Mask = finite & rows.numpy(force=True)
        return both

    def transformed(self, received: Received) -> Received:
        """The same after the transforms of client deltas."""
        if not self._chain.changes_deltas or not len(received.jobs):
            return received
        weight = self._weights(received.updates)
        updates, states = self._chain.deltas(received.server_states, received.updates, weight)
        return received._replace(updates=updates, server_states=states)

    def lengths(self, received: Received) -> PerUpdate:
        """How far each client update would move the server model by itself."""
        updates, first = received.updates, self.layout.parameters
        part = slice(first, first + (not self.memory.own_buffers) * self.layout.buffers)
        parameters = np.abs(self._weights(updates)) * _distances(updates.start, updates.end)
        return PerUpdate(parameters, _distances(received.start[:, part], received.end[:, part]))

    def apply(self, server: Vector, received: Received) -> Update:
        """Make the next update."""
        jobs, start, end, updates, _, refused, server_states = received
        client, own = self.timeline.known.client[jobs], None
        if len(jobs):
            parameters = self.layout.parameters
            if self._scales is not None:
                scale = self._scales(jobs)
                kept = _shortened(updates.start, updates.end, scale.parameters)
                updates, end = replace(updates, end=kept), self._less(start, end, scale)
            before = self.state
            if self.linear or self.by_distances:  # after a product, the state has no model
                before = before._replace(model=server[:parameters])
            with self.method.hook("aggregate", torch.cuda.OutOfMemoryError):
                state = _updated(self.method, before, updates, self.blends)
                check_shape(self.method.name, "aggregate", state.model.shape, before.model.shape)
            if self._chain:
                after = self._chain.step(server_states, before.model, state.model)
                state, server_states = state._replace(model=after[0]), after[1]
            own, buffers = self._own(jobs, server, start, end), self._merged(server, end, updates)
            server = state.model if buffers is None else torch.cat([state.model, buffers])
            if self.memory.own_buffers:
                self.memory.keep_buffers(client, end)
            self.state, self.server_states = state, server_states
        self.version += 1
        return Update(server, client, own, refused)

    def combine(self, buffers: Vector, updates: ClientUpdates) -> Vector:
        """Make the next update with combinations instead of models; returns the new buffers."""
        self.state = self.method.aggregate(self.state, updates)
        if self.layout.buffers:
            buffers = self.method.aggregate_buffers(buffers, updates.end, updates)
        self.version += 1
        return buffers

    @property
    def can_learn(self) -> bool:
        """Whether the server model is that which the next client update meets, if it matters."""
        assert self.clock is not None
        newest = self.version == self.timeline.updates - 1
        return newest or (self.ahead and "server_distance" not in self.clock.sees)

    def learn(self, loss: float, server: Vector, start: Vector, end: Vector) -> None:
        """Let the clock go on with the values of the client update that it waits for.

        Args:
            loss: of its training.
            server: (P,) the newest model, if `can_learn` says so.
            start: (P,) its start model.
            end: (P,) its end model.
        """
        assert self.clock is not None
        first, awaited = self.timeline.updates, self.clock.awaited
        if self.poisons and awaited is not None:
            (end,) = self.sent(np.array([awaited]), start[None], end[None])
        self.clock.learn(seen_values(self.clock.sees, loss, server, start, end))
        self.memory.check_growth(self.timeline, first)

    def _weights(self, updates: ClientUpdates) -> Floats:
        """(k,) what the method multiplies the delta of each client update by."""
        with self.method.hook("aggregate", torch.cuda.OutOfMemoryError):
            return _weights(self.method, self.state, updates, self.blends)

    def _less(self, start: Stack, end: Stack, scale: PerUpdate) -> Stack:
        """End models that have changed by less; clients may go on from them."""
        if not (np.minimum(*scale) < 1).any():
            return end
        first, last = self.layout.parameters, self.layout.parameters + self.layout.buffers
        parameters = _shortened(start[:, :first], end[:, :first], scale.parameters)
        buffers = _shortened(start[:, first:last], end[:, first:last], scale.buffers)
        return torch.cat([parameters, buffers, end[:, last:]], dim=1)

    def _client_updates(self, jobs: Ints, start: Stack, end: Stack) -> ClientUpdates:
        known, version = self.timeline.known, self.version + 1
        stale = self.version - known.start_version[jobs]
        rate = self.rates[jobs]
        expected = None if self._expected is None else self._expected(jobs)
        who, steps = known.client[jobs], known.steps[jobs]
        return ClientUpdates(who, steps, stale, rate, version, start, end, expected)

    def _own(self, jobs: Ints, server: Vector, start: Stack, end: Stack) -> Stack | None:
        """Models that clients continue from, with the largest counters; None: the new server's."""
        own = self.method.next_client_model(server, end)
        if own is not None and self.link is not None:
            own = self.method.next_client_model(
                self.link.reply(jobs, self.version, server, start, end), end
            )
        if own is None or not self.layout.counters:
            return own
        first = self.layout.size - self.layout.counters
        return torch.cat([own[:, :first], torch.maximum(server[first:], end[:, first:])], dim=1)

    def _merged(self, server: Vector, end: Stack, updates: ClientUpdates) -> Vector | None:
        """The server's buffers, averaged as the method says, and the largest counters."""
        first = self.layout.parameters
        last = first + self.layout.buffers
        if self.layout.size == first:
            return None
        if self.memory.own_buffers:
            return server[first:]
        averaged = self.method.aggregate_buffers(server[first:last], end[:, first:last], updates)
        return torch.cat([averaged, torch.maximum(server[last:], end[:, last:].amax(dim=0))])


def seen_values(
    names: Sequence[str], loss: float, server: Vector, start: Vector, end: Vector
) -> list[float]:
    """What a policy sees of a client update, by these names; models are (P,) each."""
    if tuple(names) == ("loss",):
        return [loss]
    length, distance = numbers([(end - start).norm(), (server - start).norm()])
    values = {"loss": loss, "delta_norm": length, "server_distance": distance}
    return [values[name] for name in names]


def _shortened(start: Stack, end: Stack, scale: Floats) -> Stack:
    """End models whose changes are multiplied; those that are not are left to the bit."""
    rows = torch.from_numpy(np.flatnonzero(scale < 1)).to(end.device)
    if not len(rows):
        return end
    shortened = end.clone()
    factor = torch.from_numpy(scale).to(end)[rows, None]
    less = start[rows] + factor * (end[rows] - start[rows])
    shortened[rows] = torch.where(factor > 0, less, start[rows])  # a change may be infinite
    return shortened


def _weights(method: Method[S], state: S, updates: ClientUpdates, blends: bool) -> Floats:
    """(k,) what a method multiplies the delta of each of these client updates by.

    Blends treat every parameter alike: one number per update says its weight. Of others it is how
    far the server model would be from where it is without one, over the length of its delta.
    """
    start, end = updates.start, updates.end
    if blends:
        zero = start.new_zeros(len(start), len(start))
        ones = replace(updates, start=zero, end=torch.eye(len(start)).to(start))
        weight = method.aggregate(state._replace(model=zero[0]), ones).model
        return np.array(weight.double().tolist())
    model, moves = method.aggregate(state, updates).model[None], []
    for row in range(len(start)):
        others = end.clone()
        others[row] = start[row]
        without = method.aggregate(state, replace(updates, end=others)).model[None]
        moves.append(_distances(without, model))
    length = _distances(start, end)
    with np.errstate(invalid="ignore"):  # infinite lengths
        return np.where(length > 0, np.concatenate(moves) / np.where(length > 0, length, 1.0), 0.0)


def _distances(start: Stack, end: Stack) -> Floats:
    """(k,) lengths of the differences, one row after the other, without overflow."""
    rows = zip(start, end, strict=True)
    norms = [torch.linalg.vector_norm(two - before, dtype=torch.float64) for before, two in rows]
    return np.array([float(norm) for norm in norms])


def _updated(method: Method[S], state: S, updates: ClientUpdates, blends: bool) -> S:
    """The state after an update.

    Blends treat every parameter alike. On a CPU they get one piece of a large model at a time, so
    that intermediate results stay in the cache.
    """
    start, end = updates.start, updates.end
    size = start.shape[1]
    if start.is_cuda or size <= _PIECE or not blends:
        return method.aggregate(state, updates)
    after, pieces = state, []
    for piece in (slice(first, first + _PIECE) for first in range(0, size, _PIECE)):
        before = state._replace(model=state.model[piece])
        part = replace(updates, start=start[:, piece], end=end[:, piece])
        after = method.aggregate(before, part)
        pieces.append(after.model)
    return after._replace(model=torch.cat(pieces))


def keeps_one_model(method: AnyMethod) -> bool:
    """Whether the state of a method has one model only, after a test update of two numbers."""
    if method.corrects or not (method.linear or method.distances):
        return False
    # Tried out, since anybody's method may say that it is linear and keep more than it says.
    zero, two = np.zeros(1, dtype=np.int64), torch.zeros(1, 2)
    about = ClientUpdates(zero, zero + 1, zero, np.ones(1), 0, two, two + 1.0)
    before = method.init(two[0])
    states = before, method.aggregate(before, about)
    return all(
        sum(isinstance(leaf, Tensor) for leaf in tree_leaves(state)) <= 1 for state in states
    )
