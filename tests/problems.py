"""Exact problems in float64: trainers whose gradients are known in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from favano.engine import Replay, replayed
from favano.methods import State
from favano.schedule import Course, Schedule
from favano.training import Layout, Work
from favano.types import Stack, Vector
from tests.MISSING import Algorithm, Visit

AnyState = TypeVar("AnyState", bound=State)


@dataclass(frozen=True, eq=False)
class Quadratics:
    """Client i has f_i(x) = (x - c_i)' A_i (x - c_i) / 2 with a diagonal A_i."""

    curvature: Tensor  # (n, P)
    centre: Tensor  # (n, P)

    def gradient(self, client: int, model: Vector) -> Vector:
        return self.curvature[client] * (model - self.centre[client])

    def local(
        self, client: int, model: Vector, steps: int, rate: float, drift: Vector | None = None
    ) -> Vector:
        for _ in range(steps):
            gradient = self.gradient(client, model)
            model = model - rate * (gradient if drift is None else gradient + drift)
        return model

    def train(self, start: Stack, work: Work) -> Stack:
        drift = [None] * len(start) if work.drift is None else work.drift
        rows = zip(start, work.client, work.steps, work.rate, drift, strict=True)
        ends = [self.local(int(i), w, int(k), float(r), d) for w, i, k, r, d in rows]
        return torch.stack(ends) if ends else start


@dataclass(frozen=True, eq=False)
class Linear:
    """Client i has a constant gradient g_i."""

    slope: Tensor  # (n, P)

    def train(self, start: Stack, work: Work) -> Stack:
        distance = torch.from_numpy(work.steps * work.rate)[:, None]
        slope = self.slope[torch.from_numpy(work.client)]
        return start - distance * (slope if work.drift is None else slope + work.drift)


def quadratics(clients: int, size: int = 4, seed: int = 0) -> Quadratics:
    generator = torch.Generator().manual_seed(seed)
    draw = torch.rand(2, clients, size, generator=generator, dtype=torch.float64)
    return Quadratics(0.5 + 1.5 * draw[0], 4 * draw[1] - 2)


def start_model(size: int = 4, seed: int = 9) -> Vector:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(size, generator=generator, dtype=torch.float64)


def make_replay(
    algorithm: Algorithm[AnyState], schedule: Schedule | Course, initial: Vector, rate: float = 0.1
) -> Replay[AnyState]:
    layout = Layout(parameters=len(initial), buffers=0, counters=0)
    return Replay(algorithm, schedule, layout, lambda s: rate * algorithm.rate(s.client), initial)


def server_models(
    algorithm: Algorithm[AnyState],
    schedule: Schedule | Course,
    trainer: Quadratics | Linear,
    initial: Vector,
    rate: float = 0.1,
) -> list[Vector]:
    """The server model before the first update and after each one."""
    replay = make_replay(algorithm, schedule, initial, rate)
    return [moment.server for moment in replayed(replay, trainer)]


def visit_of(
    client: list[int], steps: list[int], staleness: list[int], rate: float = 0.1, version: int = 0
) -> Visit:
    """The answers of these clients, written by hand."""
    who, made, age = (np.array(column, dtype=np.int64) for column in (client, steps, staleness))
    return Visit(who, made, age, np.full(len(client), rate), version)


def close(a: Tensor, b: Tensor, tolerance: float = 1e-12) -> bool:
    return bool(torch.allclose(a, b, rtol=tolerance, atol=tolerance))


def ones(clients: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.ones(clients)
