"""Two hundred nodes, a thousand rounds, one server loop: memory stays flat."""

from __future__ import annotations

import json
import resource
import time as real_time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import Array, ArrayRecord, Message

from favano.flower.local_training import LocalTraining
from favano.flower.rounds import AsyncResult
from favano.flower.strategy import AsyncStrategy
from favano.flower.wire import Reply, read_call, reply_message
from favano.methods import make_method
from tests.flower.fake_grid import FakeGrid, Node, VirtualTime

NODES, SIZE = 200, 20_000


def idle(pace: float) -> Node:
    """A node that says it has trained."""

    def handle(message: Message, begin: float) -> tuple[Message, float]:
        call = read_call(message)
        assert call.seconds is not None
        steps = min(call.steps, int(call.seconds / pace))
        reply = Reply(
            run=call.run, client=call.client, job=call.job, version=call.version,
            steps=steps, seconds=steps * pace, samples=1, model=call.model,
        )  # fmt: skip
        return reply_message(reply, message), begin + steps * pace

    return Node(handle)


def served(rounds: int) -> tuple[AsyncResult, list[int]]:
    """A federation of idle nodes, and its memory in KiB after every hundred rounds."""
    paces = np.geomspace(0.5, 20.0, NODES)
    grid = FakeGrid({1000 + number: idle(pace) for number, pace in enumerate(paces.tolist())})
    grid.keep_pushed = False
    sizes: list[int] = []

    def measure(number: int, arrays: ArrayRecord) -> None:
        sizes.append(resident())

    strategy = AsyncStrategy(
        make_method("favano", {}),
        clients=NODES,
        selected=20,
        tick=7.0,
        local_steps=20,
        learning_rate=0.1,
        local=LocalTraining(batch_size=8),
        evaluate_every=100,
    )
    time = VirtualTime(grid, most=10**9)
    start = ArrayRecord({"weight": Array(np.zeros(SIZE, np.float32))})
    result = strategy.start(
        grid, start, rounds, clock=time, workers=time.workers, evaluate_fn=measure
    )
    assert len(grid.posts) + len(grid.contents) <= NODES
    return result, sizes


def resident() -> int:
    """Memory of this process in KiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() // 1024


@pytest.mark.slow
def test_memory_is_flat_over_a_thousand_rounds() -> None:
    began = real_time.perf_counter()
    result, sizes = served(1_000)
    seconds = real_time.perf_counter() - began
    updates = sum(len(past.clients) for past in result.rounds)
    print(json.dumps({"rounds_per_second": 1_000 / seconds, "answers": updates, "KiB": sizes}))
    assert len(result.rounds) == 1_000
    assert updates == 20_000
    assert {node.contacts > 50 for node in result.nodes} == {True}
    # The least of each half: what is allocated for a moment comes and goes.
    grown = min(sizes[6:]) - min(sizes[1:6])
    assert grown < NODES * SIZE * 4 // 1024 * 5 // 8  # a model per node in 800 rounds
