"""Aggregation weights: the weight of each model in the next server model.

Most methods are linear in the models: the new server model is a weighted sum of the old one and of
the clients' start and end models, with weights that do not depend on the models. Applied to unit
vectors, such a method returns its weights. With them, the updates of many runs, also of different
methods, are one product.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple, cast

import numpy as np
import torch

from favano.methods import AnyMethod, ClientUpdates, ModelState, State
from favano.training import Layout, product_precision, to_device
from favano.types import Floats, Ints, Stack


class AggregationWeights(NamedTuple):
    """Weights of [w_{t-1}, k start models, k end models] in an update with k client updates."""

    server: Floats  # (1 + 2k,) parameters of w_t
    buffers: Floats | None  # (1 + 2k,) buffers of w_t, if there are any
    own: Floats | None  # (k, 1 + 2k) models that clients continue from, if not w_t


_MOST = 4096  # weights that are kept per run; some numbers never come again
UNCHANGED = AggregationWeights(np.ones(1), np.ones(1), None)  # without client updates


class WeightCache:
    """Computes the weights of a run's updates; those that were found before are not computed again.

    The weights of the models that clients continue from depend only on the number of client
    updates. Those of the server model depend on what the method reads of them beside their models,
    if the server model is its whole state. The same numbers of several clients rarely come again,
    so weights are kept where nothing is read, and for single client updates.
    """

    def __init__(self, method: AnyMethod, *, with_buffers: bool) -> None:
        self._method, self._with_buffers = method, with_buffers
        self._own: dict[int, Floats | None] = {}  # by the number of client updates
        # What the method reads of so many client updates; None: their weights are not kept.
        self._reads: dict[int, tuple[str, ...] | None] = {}
        self._kept: dict[tuple[object, ...], AggregationWeights] = {}

    def __call__(self, state: State, updates: ClientUpdates) -> tuple[State, AggregationWeights]:
        """The state after one update, whose model has no meaning, and the weights.

        Args:
            state: before it.
            updates: k client updates as `unit_updates` makes them.
        """
        k = len(updates.client)
        if not k:
            return state, UNCHANGED
        reads = self._reads.get(k, ())
        if reads is None:
            return self._applied(state, _Watched(updates), k)
        key = (k, *[np.asarray(getattr(updates, name)).tobytes() for name in reads])
        if (known := self._kept.get(key)) is not None:
            return state, known
        watched = _Watched(updates)
        after, weights = self._applied(state, watched, k)
        repeats = not watched.read or (k == 1 and "version" not in watched.read)
        if not isinstance(state, ModelState) or not repeats or len(self._kept) > _MOST:
            self._reads[k] = None
        elif watched.read <= {*reads}:
            self._kept[key] = weights
        else:  # from now on weights are known by all that was read so far
            self._reads[k] = tuple({*reads, *watched.read})
        return after, weights

    def _applied(self, state: State, given: _Watched, k: int) -> tuple[State, AggregationWeights]:
        """Apply the method to unit vectors, in NumPy, which is faster for small arrays."""
        method, (server, _, end), updates = self._method, _units(k), cast(ClientUpdates, given)
        if k not in self._own:
            self._own[k] = own_weights(method, k)
        first, last = cast(Stack, server), cast(Stack, end)
        after = method.aggregate(state._replace(model=first), updates)
        buffers = method.aggregate_buffers(first, last, updates) if self._with_buffers else None
        weights = cast(tuple[Floats, Floats | None], (after.model, buffers))
        return after, AggregationWeights(*weights, self._own[k])


class _Watched:
    """Client updates that record what is read of them beside their models."""

    weighted_delta = ClientUpdates.weighted_delta

    def __init__(self, updates: ClientUpdates) -> None:
        self._updates, self.read = updates, set[str]()
        self.start, self.end = updates.start, updates.end

    def __getattr__(self, name: str) -> object:
        self.read.add(name)
        return getattr(self._updates, name)


def unit_updates(
    client: Ints, steps: Ints, staleness: Ints, rate: Floats, version: int
) -> ClientUpdates:
    """Client updates, (k,) each, with unit vectors as models; arguments as `ClientUpdates` has."""
    _, start, end = _units(len(client))
    models = cast(tuple[Stack, Stack], (start, end))
    return ClientUpdates(client, steps, staleness, rate, version, *models)


def own_weights(method: AnyMethod, updates: int) -> Floats | None:
    """(k, 1 + 2k) weights of the models that clients continue from, if not the new server model."""
    server, _, end = _units(updates)
    own = method.next_client_model(torch.from_numpy(server), torch.from_numpy(end))
    return None if own is None else _one(own.shape, own.numpy().tobytes())


@cache
def _units(updates: int) -> tuple[Floats, Floats, Floats]:
    """Unit vectors for the server model, the start models and the end models."""
    units = np.eye(1 + 2 * updates)
    return units[0], units[1 : 1 + updates], units[1 + updates :]


@cache
def _one(shape: tuple[int, ...], content: bytes) -> Floats:
    """One object for all equal weights, so that they can be compared by identity."""
    return np.frombuffer(content).reshape(shape)


def new_servers(
    models: Stack, chains: Sequence[Sequence[AggregationWeights]], layout: Layout
) -> Stack:
    """The server models after updates: weighted sums of parameters and buffers, largest counters.

    Args:
        models: (U, 1 + 2k, size) server model, start models and end models of each chain of
            updates, padded with the server model if a chain has fewer client updates than another.
        chains: weights of consecutive updates; the longest has m.
        layout: of the models.

    Returns:
        The models of the first chain, then those of the second, ...
    """
    parts = [[[weights.server for weights in chain] for chain in chains]]
    if layout.buffers:
        parts.append([[cast(Floats, weights.buffers) for weights in chain] for chain in chains])
    if layout.counters:
        parts.append([[np.ones_like(weights.server) for weights in chain] for chain in chains])
    mixtures = [_mixture(part, models.shape[1]) for part in parts]
    lengths = np.array([len(chain) for chain in chains])
    servers = weighted(models, np.stack(mixtures), layout).flatten(0, 1)
    if lengths.min() == lengths.max():
        return servers
    made = np.arange(lengths.max()) < lengths[:, None]
    return servers[to_device(np.flatnonzero(made), servers)]


def weighted(models: Stack, weights: Floats, layout: Layout) -> Stack:
    """Weighted sums of the models (U, k, size), (U, m, size).

    The weights of parameters come first, (U, m, k), then those of buffers, if there are any, and
    last ones for the models whose counters count, zeros for the others.
    """
    first, last = layout.parameters, layout.parameters + layout.buffers
    given = list(to_device(weights, models).to(models.dtype))
    with product_precision("float32"):
        parts = [given.pop(0) @ models[..., :first]]
        if layout.buffers:
            parts.append(given.pop(0) @ models[..., first:last])
    if layout.counters:
        counted = given.pop(0)[..., None] * models[:, None, :, last:]
        parts.append(counted.amax(dim=2))
    return torch.cat(parts, dim=2) if len(parts) > 1 else parts[0]


def _mixture(chains: Sequence[Sequence[Floats]], width: int) -> Floats:
    """Weights of the given models in the server models of chains, (U, m, width); or zeros."""
    longest = max(len(chain) for chain in chains)
    if longest == 1 and all(len(chain[0]) == width for chain in chains):  # for speed
        return np.concatenate([chain[0] for chain in chains]).reshape(len(chains), 1, width)
    mixed = np.zeros((len(chains), longest, width))
    for rows, chain in zip(mixed, chains, strict=True):
        # Weights of a version apply to the server model before it, itself a sum of given models.
        before, place, updates = rows[0], 1, sum(len(weights) // 2 for weights in chain)
        before[0] = 1.0
        for row, weights in zip(rows, chain, strict=False):
            k = len(weights) // 2
            np.multiply(before, weights[0], out=row)
            row[place : place + k] = weights[1 : 1 + k]
            row[place + updates : place + updates + k] = weights[1 + k :]
            before, place = row, place + k
    return mixed


def new_own(
    models: Stack, updates: Sequence[AggregationWeights], layout: Layout
) -> list[tuple[Ints, Stack]]:
    """The models that clients continue from, if not w_t; arguments as in `new_servers`.

    Returns, for each group of updates with equal weights, their rows, and the models of their
    clients one after the other.
    """
    first = layout.parameters + layout.buffers
    alike: dict[int, list[int]] = {}
    for row, update in enumerate(updates):
        if update.own is not None:
            alike.setdefault(id(update.own), []).append(row)
    parts = []
    for rows in alike.values():
        own = updates[rows[0]].own
        assert own is not None
        weights = to_device(own.copy(), models).to(models.dtype)
        given = models[to_device(np.array(rows), models), : own.shape[1]]
        with product_precision("float32"):
            mixed = weights @ given
        if layout.counters:
            server, ends = given[:, :1, first:], given[:, 1 + len(own) :, first:]
            mixed[..., first:] = torch.maximum(server, ends)
        parts.append((np.array(rows), mixed.flatten(0, 1)))
    return parts
