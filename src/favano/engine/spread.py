"""Distances of the clients' models from the server model and from the mean."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from favano.training import product_precision, to_device
from favano.types import Ints, Stack, Vector

_NUMBERS_AT_ONCE = 1 << 24
_NUMBERS_TOGETHER = 1 << 26  # in the models of many runs


class ModelSpread(NamedTuple):
    """Distances of the clients' models from the server model and from the mean of all models."""

    distances: Tensor  # (2,) variance and potential
    mean: Vector  # mu = (w + sum_i w_i) / (n + 1)


def spread_of(
    single: Mapping[int, Vector],
    version: Ints,
    model: Callable[[int], Vector],
    server: Vector,
    parameters: int,
) -> ModelSpread:
    """The spread of the clients' models: first those of `single` clients, then shared versions.

    `model` gives what a client holds, `version` says which clients share it. Distances are those of
    the first `parameters` entries; the mean has all entries.
    """
    others = np.delete(np.arange(len(version)), list(single))
    _, first, counts = np.unique(version[others], return_index=True, return_counts=True)
    models = [*single.values(), *(model(client) for client in others[first].tolist())]
    holders = np.append(np.ones(len(single)), counts)
    reference = server.double()
    total, squares = torch.zeros_like(reference), reference.new_zeros(())
    at_once = max(1, _NUMBERS_AT_ONCE // len(server))
    for begin in range(0, len(models), at_once):
        part = slice(begin, begin + at_once)
        count = to_device(holders[part], reference)
        distance = torch.stack(models[part]).double().sub_(reference)
        squares += count @ distance[:, :parameters].square().sum(dim=1)
        total += count @ distance
    distances, mean = _summed(total, squares, len(version), reference, parameters)
    return ModelSpread(distances, mean.to(server.dtype))


def padded(held: Sequence[tuple[Ints, Ints]]) -> tuple[Ints, Ints]:
    """Rows that clients hold, and how many do, of each run; (runs, k), held by none: padding."""
    most = max(len(rows) for rows, _ in held)
    rows = np.stack([np.append(rows, np.full(most - len(rows), rows[0])) for rows, _ in held])
    holders = np.stack([np.append(by, np.zeros(most - len(by), np.int64)) for _, by in held])
    return rows, holders


def spreads_in_parts(
    take: Callable[[Ints], Stack], rows: Ints, holders: Ints, servers: Stack, parameters: int
) -> tuple[Tensor, Stack]:
    """The same for many runs, some of their models at a time: distances (runs, 2), and means.

    Args:
        take: the models in some rows.
        rows: (runs, k) that clients hold.
        holders: (runs, k) by how many clients.
        servers: (runs, size).
        parameters: number of entries that count for the distances.
    """
    size = servers.shape[1]
    at_once = max(1, _NUMBERS_TOGETHER // (rows.shape[1] * size))  # runs
    width = max(1, _NUMBERS_TOGETHER // size)  # models of one of them
    parts = []
    for first in range(0, len(servers), at_once):
        of = slice(first, first + at_once)
        columns = (slice(place, place + width) for place in range(0, rows.shape[1], width))
        models = ((take(rows[of, some]), holders[of, some]) for some in columns)
        parts.append(spreads(models, servers[of], parameters))
    distances, means = zip(*parts, strict=True)
    return torch.cat(distances), torch.cat(means)


def spreads(
    models: Iterable[tuple[Stack, Ints]], servers: Stack, parameters: int
) -> tuple[Tensor, Stack]:
    """The same for many runs at once: distances (runs, 2), and means.

    Differences of models have the models' own precision; only their sums are float64.

    Args:
        models: parts of (runs, k, size), with the number of clients that hold each, (runs, k).
        servers: (runs, size).
        parameters: number of entries that count for the distances.
    """
    sums, clients = [], np.zeros(len(servers))
    for part, holders in models:
        distance, count = part - servers[:, None], to_device(holders.astype(np.float64), servers)
        norms = torch.linalg.vector_norm(distance[..., :parameters], dim=2, dtype=torch.float64)
        with product_precision("float32"):
            away = count[:, None].to(servers.dtype) @ distance
        sums.append((away[:, 0].double(), torch.linalg.vecdot(count, norms.square())))
        clients += holders.sum(axis=1)
    total, squares = (reduce(torch.add, part) for part in zip(*sums, strict=True))
    number, reference = to_device(clients, squares)[:, None], servers.double()
    distances, means = _summed(total, squares, number, reference, parameters)
    return distances, means.to(servers.dtype)


def _summed(
    total: Vector, squares: Tensor, clients: int | Tensor, reference: Vector, parameters: int
) -> tuple[Tensor, Vector]:
    """Variance and potential, (..., 2), and the mean, from these sums over all clients."""
    shift = total / (clients + 1)
    excess = torch.linalg.vecdot(total[..., :parameters], shift[..., :parameters])
    return torch.stack([squares, squares - excess], dim=-1).clamp(min=0), reference + shift
