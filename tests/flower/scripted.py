"""Clients that train nothing: what they do to a model, and what they say, is written down."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from flwr.app import ArrayRecord, Message

from favano.flower.rounds import AsyncResult
from favano.flower.strategy import AsyncStrategy
from favano.flower.wire import Call, Reply, read_call, reply_message
from favano.methods import make_method
from tests.flower.fake_grid import FakeGrid, Node, VirtualTime
from tests.flower.federations import LOCAL, POLLING, TICK

Numbers = npt.NDArray[np.float32]
Change = Callable[[int], Numbers]  # of the model, after so many steps
Lie = Callable[[Reply, int], Reply]  # what is said of it, by the number of the reply

SIZE = 16


def start_of(call: Call) -> Numbers:
    return np.frombuffer(call.model, dtype="<f4")


def scripted(change: Change, pace: float, lie: Lie | None = None) -> Node:
    """A node that makes a step every `pace` seconds."""
    made = [0]

    def handle(message: Message, begin: float) -> tuple[Message, float]:
        call = read_call(message)
        time = np.inf if call.seconds is None else call.seconds
        steps = min(call.steps, int(min(time / pace, 1e9)))
        end = (start_of(call) + change(steps)).astype("<f4")
        reply = Reply(
            run=call.run, client=call.client, job=call.job, version=call.version, steps=steps,
            seconds=0.999 * steps * pace, samples=10, model=end.tobytes(), metrics={"loss": 1.0},
        )  # fmt: skip
        made[0] += 1
        said = reply if lie is None else lie(reply, made[0])
        return reply_message(said, message), begin + (
            steps * pace if call.seconds is None else min(call.seconds, call.steps * pace)
        )

    return Node(handle)


def as_if(end: Callable[[Numbers], Numbers], **fields: object) -> Lie:
    """A lie: another end model, and other fields."""

    def lie(reply: Reply, _: int) -> Reply:
        model = end(np.frombuffer(reply.model, dtype="<f4")).astype("<f4").tobytes()
        return replace(reply, model=model, **fields)  # type: ignore[arg-type]

    return lie


def strategy_with(
    name: str, clients: int, options: dict[str, object], **changes: Any
) -> AsyncStrategy:
    usual: dict[str, Any] = {
        "clients": clients, "selected": max(1, clients // 2), "local_steps": 20, "seed": 7,
        "learning_rate": 0.1, "local": LOCAL, "step_seconds": 1.0,
        "tick": TICK if name in POLLING else None,
    }  # fmt: skip
    return AsyncStrategy(make_method(name, options), **{**usual, **changes})


def grid_with(nodes: list[Node]) -> FakeGrid:
    grid = FakeGrid({100 + client: node for client, node in enumerate(nodes)})
    grid.keep_pushed = False
    return grid


def federated(
    strategy: AsyncStrategy,
    nodes: list[Node] | FakeGrid,
    rounds: int,
    size: int = SIZE,
    **more: Any,
) -> AsyncResult:
    """A federation of these nodes in virtual time; its model begins with zeros."""
    grid = nodes if isinstance(nodes, FakeGrid) else grid_with(nodes)
    time, start = VirtualTime(grid, most=100_000), ArrayRecord([np.zeros(size, np.float32)])
    return strategy.start(grid, start, rounds, 1000.0, clock=time, workers=time.workers, **more)
