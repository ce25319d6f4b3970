"""Exact problems in float64: trainers whose gradients are known in closed form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from favano.aggregation import Aggregator
from favano.engine import PlainLoop
from favano.methods import ClientUpdates, Method
from favano.methods.method import S
from favano.schedule import Schedule, Timeline, VirtualClock
from favano.training import Layout, Work
from favano.training.optimisers import Memory
from favano.types import Stack, Vector

Step: TypeAlias = Callable[[Stack, Memory], tuple[Stack, Memory]]


@dataclass(frozen=True, eq=False)
class Quadratics:
    """Client i has f_i(x) = (x - c_i)' A_i (x - c_i) / 2 with a diagonal A_i."""

    curvature: Tensor  # (n, P)
    centre: Tensor  # (n, P)

    def gradient(self, client: int, model: Vector) -> Vector:
        return self.curvature[client] * (model - self.centre[client])

    def local(
        self, client: int, model: Vector, steps: int, rate: float, correction: Vector | None = None
    ) -> Vector:
        for _ in range(steps):
            gradient = self.gradient(client, model)
            model = model - rate * (gradient if correction is None else gradient + correction)
        return model

    def train(self, start: Stack, work: Work) -> Stack:
        correction = [None] * len(start) if work.correction is None else work.correction
        rows = zip(start, work.client, work.steps, work.rate, correction, strict=True)
        ends = [self.local(int(i), w, int(k), float(r), d) for w, i, k, r, d in rows]
        return torch.stack(ends) if ends else start


@dataclass(frozen=True, eq=False)
class Linear:
    """Client i has a constant gradient g_i."""

    slope: Tensor  # (n, P)

    def gradient(self, client: int, model: Vector) -> Vector:
        return self.slope[client]

    def train(self, start: Stack, work: Work) -> Stack:
        distance = torch.from_numpy(work.steps * work.rate)[:, None]
        slope = self.slope[torch.from_numpy(work.client)]
        return start - distance * (slope if work.correction is None else slope + work.correction)


@dataclass(frozen=True, eq=False)
class Remembering:
    """The same problem for clients with a memory, which follows their models; step by step."""

    problem: Quadratics | Linear
    step: Step
    size: int  # P
    proximal: float = 0.0

    def train(self, start: Stack, work: Work) -> Stack:
        rows = zip(start, work.client.tolist(), work.steps.tolist(), work.rate, strict=True)
        ends = [self.job(row, client, steps, float(rate)) for row, client, steps, rate in rows]
        return torch.stack(ends) if ends else start

    def job(self, start: Vector, client: int, steps: int, rate: float) -> Vector:
        origin = model = start[: self.size]
        memory = start[self.size :].view(-1, self.size).unbind()
        for _ in range(steps):
            pull = self.proximal * (model - origin)
            direction, memory = self.step(self.problem.gradient(client, model) + pull, memory)
            model = model - rate * direction
        return torch.cat([model, *memory])


def trainer_of(
    method: Method[S], problem: Quadratics | Linear, size: int
) -> Quadratics | Linear | Remembering:
    """Who trains the clients of a method on this problem."""
    return Remembering(problem, method.local_step, size) if method.memory else problem


def quadratics(clients: int, size: int = 4, seed: int = 0) -> Quadratics:
    generator = torch.Generator().manual_seed(seed)
    draw = torch.rand(2, clients, size, generator=generator, dtype=torch.float64)
    return Quadratics(0.5 + 1.5 * draw[0], 4 * draw[1] - 2)


def start_model(size: int = 4, seed: int = 9) -> Vector:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(size, generator=generator, dtype=torch.float64)


def make_aggregator(
    method: Method[S],
    schedule: Schedule | Timeline | VirtualClock,
    initial: Vector,
    rate: float = 0.1,
) -> Aggregator[S]:
    layout = Layout(parameters=len(initial), buffers=0, counters=0)
    return Aggregator(
        method, schedule, layout, lambda s, first: rate * method.rates(s)[first:], initial
    )


def server_models(
    method: Method[S],
    schedule: Schedule | Timeline | VirtualClock,
    problem: Quadratics | Linear,
    initial: Vector,
    rate: float = 0.1,
) -> list[Vector]:
    """The server model before the first update and after each one."""
    aggregator = make_aggregator(method, schedule, initial, rate)
    trainer = trainer_of(method, problem, len(initial))
    return [event.server for event in PlainLoop(aggregator, trainer).events()]


NO_MODELS = torch.empty(0)


def answers_of(
    client: list[int],
    steps: list[int],
    staleness: list[int],
    start: Stack = NO_MODELS,
    end: Stack = NO_MODELS,
    *,
    rate: float = 0.1,
    version: int = 0,
) -> ClientUpdates:
    """The client updates of these clients, written by hand."""
    who, made, age = (np.array(column, dtype=np.int64) for column in (client, steps, staleness))
    return ClientUpdates(who, made, age, np.full(len(client), rate), version, start, end)


def close(a: Tensor, b: Tensor, tolerance: float = 1e-12) -> bool:
    return bool(torch.allclose(a, b, rtol=tolerance, atol=tolerance))


def ones(clients: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.ones(clients)
