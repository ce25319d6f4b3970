"""Federations on the fake grid, and their traces in the simulator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from flwr.app import ArrayRecord, Message
from torch.nn import functional

from favano.data import BatchStream
from favano.flower.client import Client
from favano.flower.flat_arrays import flat_arrays
from favano.flower.local_training import LocalTraining
from favano.flower.payload import read_codec
from favano.flower.rounds import AsyncResult
from favano.flower.strategy import AsyncStrategy
from favano.methods import AnyMethod, make_method
from favano.preflight.task import check_fit
from favano.quantisation import quantised
from favano.run.replay import Divergence, divergence, link_of, replay
from favano.training import FlatModel, LoopTrainer, Task
from favano.types import Vector
from tests.flower.calls import CLIENTS, data_of, network, parts, samples
from tests.flower.fake_grid import FakeGrid, Node, OwnTime, VirtualTime

LOCAL = LocalTraining(batch_size=4)
PACES = (1.0, 2.5, 6.0)  # seconds of a step
POLLING = ("favano", "favano-delta", "quafl")
TICK = 7.0


def honest(client: int, pace: float) -> Node:
    """A node with a client that trains."""
    clock = OwnTime()
    worker = Client(network(), data_of(client), pace=pace, clock=clock.now, sleep=clock.sleep)

    def handle(message: Message, begin: float) -> tuple[Message, float]:
        clock.time = begin
        return worker.answer(message), clock.time

    return Node(handle)


def grid_of(paces: Sequence[float] = PACES) -> FakeGrid:
    """Nodes 100, 101, ...: the first is client 0."""
    return FakeGrid({100 + client: honest(client, pace) for client, pace in enumerate(paces)})


def strategy_of(method: AnyMethod | str = "favano", **changes: Any) -> AsyncStrategy:
    chosen = make_method(method, {}) if isinstance(method, str) else method
    usual: dict[str, Any] = {
        "clients": CLIENTS, "selected": 2, "local_steps": 4, "learning_rate": 0.1, "local": LOCAL,
        "seed": 7, "step_seconds": 3.0, "tick": TICK if chosen.name in POLLING else None,
    }  # fmt: skip
    return AsyncStrategy(chosen, **{**usual, **changes})


def initial() -> ArrayRecord:
    return ArrayRecord(network().state_dict())


def lived(
    strategy: AsyncStrategy,
    grid: FakeGrid | None = None,
    rounds: int = 12,
    *,
    timeout: float = 1000.0,
    time: VirtualTime | None = None,
    **more: Any,
) -> AsyncResult:
    """A federation in virtual time."""
    grid = grid or grid_of()
    time = time or VirtualTime(grid)
    return strategy.start(
        grid, initial(), rounds, timeout, clock=time, workers=time.workers, **more
    )


def simulated(strategy: AsyncStrategy, result: AsyncResult) -> Vector:
    """The model that the simulator makes of a federation's trace."""
    assert result.trace is not None
    inputs, targets = samples()
    local = strategy.local_training
    flat = FlatModel(quantised(network(), local.training.recipe), device="cpu")
    batches = BatchStream(
        parts(), local.batch_size, strategy.seed, np.arange(CLIENTS), local.batch_order
    )
    task = Task(inputs, targets, batches, functional.cross_entropy)
    check_fit(flat, task, 3)
    trainer = LoopTrainer(flat, task, local.rule(corrected=strategy.method.corrects))
    *_, last = replay(
        result.trace,
        strategy.bound,
        trainer,
        model_of(initial()),
        server=strategy.chain,
        link=link_of(result.trace, read_codec(strategy.codec), flat, strategy.seed),
        buffers=strategy.buffers,
    )
    return last


def model_of(arrays: ArrayRecord) -> Vector:
    return flat_arrays(arrays).vector(arrays)


def diverges(strategy: AsyncStrategy, result: AsyncResult) -> Divergence:
    return divergence(model_of(result.arrays), simulated(strategy, result))


def same_models(result: AsyncResult, two: AsyncResult) -> bool:
    return torch.equal(model_of(result.arrays), model_of(two.arrays))


def refusals(result: AsyncResult) -> Mapping[int, Mapping[str, int]]:
    """By client."""
    return {node.client: node.refusals for node in result.nodes if node.refusals}
