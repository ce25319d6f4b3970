"""An update as numbers: how much of each model goes into the next one.

Most methods are linear in the models: the new server model is a combination of the old one and of
the clients' start and end models, with weights that the visit decides and the models do not. Such
a method shows its weights when it is applied to unit vectors. With them the updates of many runs,
whatever their methods, become one product.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from favano.algorithms import LINEAR
from favano.algorithms.base import Algorithm, S, State, Visit
from favano.training import Layout, to_device
from favano.types import Floats, Stack, Vector

Mask = npt.NDArray[np.bool_]


class Blend(NamedTuple):
    """Weights of [w_{t-1}, k start models, k end models], with k the answers of one update."""

    server: Floats  # (1 + 2k,) parameters of w_t
    buffers: Floats  # (1 + 2k,) buffers of w_t
    own: Floats | None  # (k, 1 + 2k) what the clients go on from, where that is not w_t


def is_linear(algorithm: Algorithm[State]) -> bool:
    """Whether the method's updates are blends."""
    return isinstance(algorithm, LINEAR)


def blend(algorithm: Algorithm[S], state: S, visit: Visit) -> tuple[S, Blend]:
    """The weights of one update, and the state after it with anything for a model."""
    k = len(visit.client)
    server, start, end = _units(k)
    after = algorithm.update(state._replace(model=server), visit, start, end)
    own = algorithm.restart(server, end)
    buffers = algorithm.average(server, end)
    return after, Blend(after.model.numpy(), buffers.numpy(), None if own is None else own.numpy())


@cache
def _units(answers: int) -> tuple[Vector, Stack, Stack]:
    """Unit vectors for the server model, the start models and the end models."""
    units = torch.eye(1 + 2 * answers, dtype=torch.float64)
    return units[0], units[1 : 1 + answers], units[1 + answers :]


def without(found: Blend, kept: Mask) -> Blend:
    """The same with places, of weight zero, for the answers that were refused."""
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
    return Blend(widened(found.server), widened(found.buffers), own)


UNCHANGED = Blend(np.ones(1), np.ones(1), None)  # an update without an answer


def new_servers(models: Stack, blends: Sequence[Blend], layout: Layout) -> Stack:
    """The server models after updates: parameters and buffers blended, of counters the largest.

    Args:
        models: (U, 1 + 2k, size) of each update the old server model, starts and ends, and the
            server model again where an update has fewer answers than another.
        blends: of each update.
        layout: where parameters, buffers and counters lie.
    """
    first, last = layout.parameters, layout.parameters + layout.buffers
    weights = np.zeros((2, len(blends), 1, models.shape[1]))
    for row, found in enumerate(blends):
        weights[0, row, 0, : len(found.server)] = found.server
        weights[1, row, 0, : len(found.buffers)] = found.buffers
    of_parameters, of_buffers = to_device(weights, models).to(models.dtype)
    parts = [(of_parameters @ models[..., :first])[:, 0]]
    if layout.buffers:
        parts.append((of_buffers @ models[..., first:last])[:, 0])
    if layout.counters:
        parts.append(models[..., last:].amax(dim=1))
    return torch.cat(parts, dim=1) if len(parts) > 1 else parts[0]


def new_own(models: Stack, blends: Sequence[Blend]) -> Stack | None:
    """What the clients of these updates go on from, one after the other; None if from w_t."""
    owners = np.flatnonzero([found.own is not None for found in blends])
    if not len(owners):
        return None
    answers = max(len(blends[row].buffers) // 2 for row in owners.tolist())
    weights = np.zeros((len(owners), answers, models.shape[1]))
    there = np.zeros((len(owners), answers), dtype=np.bool_)
    for place, row in enumerate(owners.tolist()):
        own = blends[row].own
        assert own is not None
        weights[place, : own.shape[0], : own.shape[1]] = own
        there[place, : own.shape[0]] = True
    mixed = to_device(weights, models).to(models.dtype) @ models[to_device(owners, models)]
    return mixed.flatten(0, 1)[to_device(np.flatnonzero(there), models)]
