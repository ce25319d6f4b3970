"""Aggregation weights: how much of each model goes into the next server model.

Most methods are linear in the models: the new server model is a combination of the old one and of
the clients' start and end models, with weights that depend on the answers but not on the models.
Applied to unit vectors, such a method shows its weights. With them, the updates of many runs become
one product, whatever their methods.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt
import torch

from favano.methods import Answers, AnyMethod, ModelState, State
from favano.training import Layout, to_device
from favano.types import Floats, Ints, Stack

Mask = npt.NDArray[np.bool_]


class AggregationWeights(NamedTuple):
    """Weights of [w_{t-1}, k start models, k end models], with k the answers of one update."""

    server: Floats  # (1 + 2k,) parameters of w_t
    buffers: Floats | None  # (1 + 2k,) buffers of w_t, where there are any
    own: Floats | None  # (k, 1 + 2k) what the clients go on from, where that is not w_t


UNCHANGED = AggregationWeights(np.ones(1), np.ones(1), None)  # an update without an answer


class About(NamedTuple):
    """Answers without their models."""

    client: Ints
    steps: Ints
    staleness: Ints
    rate: Floats
    version: int


def is_blend(method: AnyMethod) -> bool:
    """Whether a method's updates are blends: linear, and no model but the server's is remembered.

    Seen in an update of its own, on a model of two numbers.
    """
    if not method.linear or method.memory or method.corrects:
        return False
    one, two = np.zeros(1, dtype=np.int64), torch.zeros(1, 2)
    about = Answers(one, one + 1, one, np.ones(1), 0, two, two + 1.0)
    before = method.init(two[0])
    return not any(_holds_models(state) for state in (before, method.update(before, about)))


def _holds_models(state: State) -> bool:
    """Whether a state holds tensors beside the server model."""

    def tensors(value: object) -> int:
        if isinstance(value, torch.Tensor):
            return 1
        inner = value.values() if isinstance(value, dict) else value
        return (
            sum(map(tensors, inner))
            if isinstance(inner, Iterable) and not isinstance(inner, str | np.ndarray)
            else 0
        )

    return tensors(tuple(cast(Iterable[object], state))) > 1


class WeightCache:
    """Finds the weights of a run's updates; those that cannot change are computed once.

    The models that clients go on from depend on the number of answers alone. So does the server
    model, if the state of the method is that model alone and its update did not read whose answers
    they are.
    """

    def __init__(self, method: AnyMethod, *, with_buffers: bool) -> None:
        self._method, self._with_buffers = method, with_buffers
        self._own: dict[int, Floats | None] = {}  # by the number of answers
        self._always: dict[int, AggregationWeights | None] = {}  # None: it matters whose they are

    def __call__(self, state: State, about: About) -> tuple[State, AggregationWeights]:
        """The weights of one update, and the state after it, whose model has no meaning."""
        k = len(about.client)
        if k not in self._always:
            watched = _Watched(about)
            after, found = self._applied(state, cast(About, watched), k)
            constant = isinstance(state, ModelState) and not watched.looked_at
            self._always[k] = found if constant else None
            return after, found
        known = self._always[k]
        return self._applied(state, about, k) if known is None else (state, known)

    def _applied(self, state: State, about: About, k: int) -> tuple[State, AggregationWeights]:
        """Apply the method to unit vectors, in NumPy, which is faster for arrays this small."""
        method, units = self._method, _units(k)
        if k not in self._own:
            own = method.restart(torch.from_numpy(units.server), torch.from_numpy(units.end))
            self._own[k] = None if own is None else _one(own.shape, own.numpy().tobytes())
        server, start, end = (cast(Stack, unit) for unit in units)
        answers = cast(Answers, _Beside(about, start, end))
        after = method.update(state._replace(model=server), answers)
        buffers = method.average(server, end, answers) if self._with_buffers else None
        weights = cast(tuple[Floats, Floats | None], (after.model, buffers))
        return after, AggregationWeights(*weights, self._own[k])


class _Watched:
    """What is known of answers; notes whether any of it is read."""

    def __init__(self, about: About) -> None:
        self._about, self.looked_at = about, False

    def __getattr__(self, name: str) -> object:
        self.looked_at = True
        return getattr(self._about, name)


class _Beside:
    """What is known of answers, beside models for them."""

    progress = Answers.progress

    def __init__(self, about: About, start: Stack, end: Stack) -> None:
        self._about, self.start, self.end = about, start, end

    def __getattr__(self, name: str) -> object:
        return getattr(self._about, name)


class _Units(NamedTuple):
    """Unit vectors for the server model, the start models and the end models."""

    server: Floats
    start: Floats
    end: Floats


@cache
def _units(answers: int) -> _Units:
    units = np.eye(1 + 2 * answers)
    return _Units(units[0], units[1 : 1 + answers], units[1 + answers :])


@cache
def _one(shape: tuple[int, ...], content: bytes) -> Floats:
    """One object for all equal weights, so that equal ones are found by identity."""
    return np.frombuffer(content).reshape(shape)


def without(found: AggregationWeights, kept: Mask) -> AggregationWeights:
    """The same weights, with zeros for the answers that were refused."""
    k = len(kept)
    places = np.concatenate([[0], 1 + np.flatnonzero(kept), 1 + k + np.flatnonzero(kept)])

    def widened(weights: Floats) -> Floats:
        wide = np.zeros((*weights.shape[:-1], 1 + 2 * k))
        wide[..., places] = weights
        return wide

    own = None
    if found.own is not None:
        own = np.zeros((k, 1 + 2 * k))
        own[kept] = widened(found.own)
    buffers = None if found.buffers is None else widened(found.buffers)
    return AggregationWeights(widened(found.server), buffers, own)


def new_servers(models: Stack, updates: Sequence[AggregationWeights], layout: Layout) -> Stack:
    """The server models after updates: parameters and buffers combined, of counters the largest.

    Args:
        models: (U, 1 + 2k, size) of each update the old server model, starts and ends, and the
            server model again where an update has fewer answers than another.
        updates: weights of each update.
        layout: where parameters, buffers and counters lie.
    """
    first, last = layout.parameters, layout.parameters + layout.buffers
    weights = np.zeros((2 if layout.buffers else 1, len(updates), 1, models.shape[1]))
    for row, found in enumerate(updates):
        weights[0, row, 0, : len(found.server)] = found.server
        if layout.buffers and found.buffers is not None:
            weights[1, row, 0, : len(found.buffers)] = found.buffers
    given = to_device(weights, models).to(models.dtype)
    parts = [(given[0] @ models[..., :first])[:, 0]]
    if layout.buffers:
        parts.append((given[1] @ models[..., first:last])[:, 0])
    if layout.counters:
        parts.append(models[..., last:].amax(dim=1))
    return torch.cat(parts, dim=1) if len(parts) > 1 else parts[0]


def new_own(
    models: Stack, updates: Sequence[AggregationWeights], layout: Layout
) -> list[tuple[Ints, Stack]]:
    """The models that clients go on from where that is not w_t; arguments as in `new_servers`.

    Returns, for each group of updates with equal weights, their rows and the models of their
    clients one after the other.
    """
    first = layout.parameters + layout.buffers
    alike: dict[int, list[int]] = {}
    for row, found in enumerate(updates):
        if found.own is not None:
            alike.setdefault(id(found.own), []).append(row)
    parts = []
    for rows in alike.values():
        own = updates[rows[0]].own
        assert own is not None
        weights = to_device(own.copy(), models).to(models.dtype)
        given = models[to_device(np.array(rows), models), : own.shape[1]]
        mixed = weights @ given
        if layout.counters:
            server, ends = given[:, :1, first:], given[:, 1 + len(own) :, first:]
            mixed[..., first:] = torch.maximum(server, ends)
        parts.append((np.array(rows), mixed.flatten(0, 1)))
    return parts
