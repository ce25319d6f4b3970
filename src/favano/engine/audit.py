"""The audit: the weight of each client's local steps in the server model.

Every local step gets a gradient of length one. Its direction is one coordinate per client, or per
group of clients, or per group and stretch of the schedule. Local rule and method are then applied
as in a run, up to the final server model. This is exact for methods that are linear in the models.
Compression and quantisation are left out. NumPy only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np

from favano.errors import require
from favano.methods import AnyMethod, ClientUpdates
from favano.methods.accumulation import PLAIN_SGD, Accumulation
from favano.methods.arrays import column, stacked, zeros
from favano.schedule import Schedule, Timeline
from favano.types import Floats, Ints, Stack, Vector
from favano.user_classes import is_ours

STRETCHES = 20
_COLUMNS_AT_ONCE = 1000


@dataclass(frozen=True)
class LocalSteps:
    """The local rule of every job."""

    rates: Floats | None = None  # (J,) step sizes; None: the method's factor on a rate of one
    accumulation: Accumulation = PLAIN_SGD


PLAIN = LocalSteps()


class Weights(NamedTuple):
    """Effective weights of groups of clients."""

    final: Floats  # (g,) in the final server model
    late: Floats  # (m, g) in up to 20 server models of the second half
    stretches: Ints  # first updates of up to 20 stretches of about equal weight


def weigh(method: AnyMethod, schedule: Schedule, group: Ints, local: LocalSteps = PLAIN) -> Weights:
    """The effective weights of groups of clients; the cost grows with their number.

    Late server models have similar weights if each is made of many client updates. They differ if a
    model is mostly the last client's: it continued from its own, so few clients contributed.
    """
    groups, last = int(group.max()) + 1, max(schedule.updates - 1, 0)
    late = np.unique(np.linspace((last + 1) // 2, last, STRETCHES).astype(np.int64)).tolist()
    age = np.maximum(schedule.updates - 1 - schedule.used_by, 0)
    doublings = int(np.log2(last + 1)) + 1
    doubling = np.log2(age + 1.0).astype(np.int64).clip(0, doublings - 1)
    place = np.stack([group[schedule.client], groups + doubling], axis=1)
    moved = _moved(method, schedule, local, place, groups + doublings, late)
    shares = _shares(moved[:, :groups])
    return Weights(shares[-1], shares, _equal_stretches(schedule.updates, moved[-1, groups:]))


def stretch_weights(
    method: AnyMethod, schedule: Schedule, group: Ints, stretches: Ints, local: LocalSteps = PLAIN
) -> Floats:
    """Effective weights of groups of clients in stretches of the schedule, (B, g).

    Row b is the share of the client updates used in one stretch of server steps; the sum of all
    rows is the share of each group. All stretches have about the same weight. For a method that
    only adds progress they are equally long; if every server step makes the model forget, as in
    FedAsync, most of them are near the end.

    A client may be in several groups, (n, q): the shares of groups that nobody shares, as those of
    one column, are to be compared with each other.
    """
    groups, count = int(group.max()) + 1, len(stretches)
    stretch = np.searchsorted(stretches, schedule.used_by, side="right") - 1
    stretch = stretch.clip(0, count - 1)  # jobs that no update uses are beyond the last
    place = stretch[:, None] * groups + group[schedule.client].reshape(len(stretch), -1)
    last = [schedule.updates - 1]
    moved = _moved(method, schedule, local, place, count * groups, last)
    return _shares(moved).reshape(count, groups)


def _shares(moved: Floats) -> Floats:
    """Each row as shares of its sum."""
    total = moved.sum(axis=1, keepdims=True)
    return moved / np.where(total == 0, 1.0, total)


def _equal_stretches(updates: int, by_age: Floats) -> Ints:
    """First updates of stretches of about equal weight.

    The weights of the last update, the 2 before it, the 4 before them, ... show how fast the model
    forgets; within each of these groups, updates are assumed to have equal weight.
    """
    weight = np.maximum(by_age, 0.0)
    if not 0 < weight.sum() < np.inf:
        return np.zeros(1, dtype=np.int64)
    ages = np.minimum(2.0 ** np.arange(len(weight) + 1) - 1, updates)
    wanted = np.linspace(0, weight.sum(), STRETCHES + 1)[1:]
    cuts = np.interp(wanted, np.concatenate([[0.0], weight.cumsum()]), ages)
    firsts = np.append(updates - cuts.round().astype(np.int64), 0)
    return np.unique(firsts.clip(0, updates - 1))


def _moved(
    method: AnyMethod,
    schedule: Schedule,
    local: LocalSteps,
    place: Ints,
    columns: int,
    versions: Sequence[int],
) -> Floats:
    """Movement of these server models by the jobs' steps, (m, columns).

    `place` names the columns to which the steps of each job are added, (J, p).
    """
    rule = "is not linear in the models, so that clients have no effective weights"
    require(method.linear, "method", method.name, rule)
    parts = []
    for first in range(0, columns, _COLUMNS_AT_ONCE):
        size = min(_COLUMNS_AT_ONCE, columns - first)
        moved = _Propagation(method, schedule, local, place - first, size)
        parts.append(moved.models(versions))
    return np.concatenate(parts, axis=1)


class _Propagation:
    """The plain loop on small vectors: a job adds its steps in the coordinates of its places.

    The vectors are NumPy's for our methods, and PyTorch's for others, which are written for these.
    """

    def __init__(
        self, method: AnyMethod, schedule: Schedule, local: LocalSteps, place: Ints, size: int
    ) -> None:
        self._method, self._schedule, self._place, self._size = method, schedule, place, size
        self._rates = method.job_rates(schedule) if local.rates is None else local.rates
        self._rule, self._timeline = local.accumulation, Timeline.of(schedule)
        self._reach = self._rule.reach(schedule.steps, self._rates)
        initial = cast(Vector, np.zeros(size))
        if not is_ours(method):
            import torch

            initial = torch.zeros(size, dtype=torch.float64)
        self._state, self._server = method.init(initial), initial
        self._starts: dict[int, Vector] = {}  # of jobs that are not used yet
        self._own: dict[int, Vector] = {}
        self._memory: dict[int, tuple[Vector, ...]] = {}

    def models(self, versions: Sequence[int]) -> Floats:
        """The server models of these versions, (m, size)."""
        kept = {}
        self._begin(-1)
        for version in range(self._schedule.updates):
            self._update(version)
            self._begin(version)
            if version in versions:
                kept[version] = self._server
        return np.array([np.asarray(kept.get(version, self._server)) for version in versions])

    def _begin(self, version: int) -> None:
        """Jobs begin from the newest version, or from their client's own model."""
        jobs = self._timeline.begun(version)
        for job, who in zip(jobs.tolist(), self._schedule.client[jobs].tolist(), strict=True):
            self._starts[job] = self._own.get(who, self._server)

    def _update(self, version: int) -> None:
        """Make an update."""
        jobs, server = self._timeline.jobs(version), self._server
        if len(jobs):
            plan, method = self._schedule, self._method
            client, staleness = plan.client[jobs], version - 1 - plan.start_version[jobs]
            start = stacked([self._starts.pop(job) for job in jobs.tolist()], server)
            end = self._trained(start, jobs)
            rates, steps = self._rates[jobs], plan.steps[jobs]
            own = method.next_client_model(server, end)
            updates = ClientUpdates(client, steps, staleness, rates, version, start, end)
            self._state = method.aggregate(self._state, updates)
            if own is not None:
                self._own.update(zip(client.tolist(), own, strict=True))
            self._server = self._state.model

    def _trained(self, start: Stack, jobs: Ints) -> Stack:
        """End models."""
        place = self._place[jobs]
        inside = (place >= 0) & (place < self._size)
        if self._method.memory:
            places = [of[here] for of, here in zip(place, inside, strict=True)]
            return self._remembered(start, jobs, places)
        end, reach = 1.0 * start, self._reach[jobs]
        row = inside.nonzero()[0]
        end[row, place[inside]] += column(reach[row], end)[:, 0]
        correction = self._method.gradient_correction(self._state, self._schedule.client[jobs])
        return end if correction is None else end - column(reach, end) * correction

    def _remembered(self, start: Stack, jobs: Ints, places: Sequence[Ints]) -> Stack:
        """End models of clients with a memory, step by step."""
        ends, method = [], self._method
        for row, job in enumerate(jobs.tolist()):
            who, rate = int(self._schedule.client[job]), float(self._rates[job])
            origin = model = start[row]
            memory = self._memory.get(who) or tuple(zeros(model) for _ in range(method.memory))
            momentum, velocity = self._rule.momentum, zeros(model)
            for _ in range(int(self._schedule.steps[job])):
                gradient = self._rule.proximal * (model - origin)
                gradient[places[row]] -= 1.0
                direction, memory = method.local_step(gradient, memory)
                velocity = momentum * velocity + direction
                ahead = direction + momentum * velocity if self._rule.nesterov else velocity
                model = model - rate * ahead
            self._memory[who] = memory
            ends.append(model)
        return stacked(ends, start[0])
