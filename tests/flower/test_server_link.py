"""Packed models on the wire, both ways: read as in the simulator, in few bytes, and never lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr")

from flwr.app import ArrayRecord, Message
from torch import nn

from favano.errors import BadInput
from favano.flower.client import Client
from favano.flower.flat_arrays import flat_arrays
from favano.flower.payload import read_codec
from favano.flower.rounds import AsyncResult
from favano.flower.wire import Call, content_bytes, read_call
from favano.methods import make_method
from favano.screening import Refusal
from tests.flower.calls import data_of
from tests.flower.fake_grid import FakeGrid, Killed, Node, OwnTime, VirtualTime
from tests.flower.federations import (
    diverges,
    grid_of,
    honest,
    initial,
    lived,
    refusals,
    same_models,
    strategy_of,
)
from tests.flower.test_faults import changed

CODECS = ("qsgd:8", "min-max:4", "lattice:12:0.001", "lattice:6:0.01:dither")
METHODS = (
    "favano", "fedavg", "fedasync", "fedbuff", "fedfix", "scaffold", "asofed", "asyncsgd",
)  # fmt: skip


def calls(grid: FakeGrid) -> list[Call]:
    return [read_call(message) for message in grid.pushed]


def sent_whole(result: AsyncResult) -> list[float]:
    """By job: whether its client began from all numbers of a model."""
    assert result.trace is not None
    return list(result.trace.whole)


PAIRS = [(name, codec) for name in METHODS for codec in CODECS]


@pytest.mark.quick("favano lattice:12:0.001", "scaffold qsgd:8")
@pytest.mark.parametrize("pair", PAIRS, ids=" ".join)
def test_the_simulator_makes_the_same_model_behind_a_codec(pair: tuple[str, str]) -> None:
    name, codec = pair
    strategy, grid = strategy_of(name, codec=codec), grid_of()
    result = lived(strategy, grid)
    assert diverges(strategy, result).equal
    assert not diverges(strategy_of(name), result).equal
    assert not result.refusals
    assert sum(sent_whole(result)) < len(sent_whole(result)) / 2


def test_every_client_is_sent_one_whole_model_and_then_packed_ones() -> None:
    grid, strategy = grid_of(), strategy_of(codec="qsgd:8")
    lived(strategy, grid)
    shape, codec = flat_arrays(initial()).shape, read_codec("qsgd:8")
    seen: set[int] = set()
    for call in calls(grid):
        packed = call.client in seen
        assert len(call.model) == shape.bytes_of(codec if packed else None)
        assert (call.key >= 0) == packed
        seen.add(call.client)


@pytest.mark.parametrize("codec", ["qsgd:5", "lattice:9:0.001", "min-max:4"])
def test_a_version_is_not_sent_twice_to_one_client(codec: str) -> None:
    """The fast client fills the buffer alone, and begins from the same version again."""
    method = make_method("fedbuff", {"buffer_mode": "code", "buffer": 4})
    grid, strategy = grid_of((1.0, 9.0, 20.0)), strategy_of(method, codec=codec)
    result = lived(strategy, grid, rounds=8)
    sizes = [len(call.model) for call in calls(grid)]
    assert sizes.count(0) > 6
    assert diverges(strategy, result).equal


@pytest.mark.quick("local-qsgd:5")
@pytest.mark.parametrize("codec", ["none", "qsgd:5", "lattice:9:0.001"])
@pytest.mark.parametrize("buffers", ["average", "local"])
def test_answers_without_steps_are_packed_like_any_other(codec: str, buffers: str) -> None:
    strategy = strategy_of(codec=codec, buffers=buffers)
    result = lived(strategy, grid_of((1.0, 2.5, 20.0)), rounds=20)
    assert 0 in [steps for past in result.rounds for steps in past.steps]
    assert diverges(strategy, result).equal


def wide() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 4000), nn.ReLU(), nn.Linear(4000, 3))


def wide_node(client: int) -> Node:
    clock = OwnTime()
    worker = Client(wide(), data_of(client), pace=2.0, clock=clock.now, sleep=clock.sleep)

    def handle(message: Message, begin: float) -> tuple[Message, float]:
        clock.time = begin
        return worker.answer(message), clock.time

    return Node(handle)


def traffic(**changes: Any) -> tuple[int, int]:
    """Bytes up and down of a federation of large models, as they were sent."""
    grid = FakeGrid({100 + client: wide_node(client) for client in range(3)})
    time, replies = VirtualTime(grid), list[int]()

    def weigh(reply: Message, _: int) -> Message:
        replies.append(content_bytes(reply))
        return reply

    for node in grid.nodes.values():
        node.tamper = weigh
    model = ArrayRecord(wide().state_dict())
    strategy = strategy_of("fedavg", selected=3, **changes)
    result = strategy.start(grid, model, 20, clock=time, workers=time.workers)
    last = result.rounds[-1]
    assert last.bytes_up == sum(replies[:-3])  # the others belong to calls after the end
    assert last.bytes_down == sum(content_bytes(message) for message in grid.pushed[:-3])
    return last.bytes_up, last.bytes_down


@pytest.mark.quick("qsgd:8-4.0")
@pytest.mark.parametrize(("codec", "factor"), [("qsgd:8", 4.0), ("lattice:14:0.0001", 32 / 14)])
def test_bytes_fall_by_the_factor_of_the_codec(codec: str, factor: float) -> None:
    """Except for the first model of each client: 1 of 20."""
    plain, packed = traffic(), traffic(codec=codec)
    assert plain[0] / packed[0] == pytest.approx(factor, rel=0.02)
    assert plain[1] / packed[1] == pytest.approx(20 / (1 + 19 / factor), rel=0.02)


def test_a_node_that_has_lost_its_model_is_sent_a_whole_one() -> None:
    """It is started anew, without a memory, and nobody tells the server."""
    grid, said = grid_of(), list[str]()
    strategy = strategy_of(codec="qsgd:8", say=said.append)
    before, after = grid.nodes[100].handle, honest(0, 1.0).handle

    def handle(message: Message, begin: float) -> tuple[Message, float]:
        return (before if begin < 30 else after)(message, begin)

    grid.nodes[100].handle = raising_nothing(handle)
    result = lived(strategy, grid, rounds=20)
    (line,) = [line for line in said if "no client update" in line]
    assert "this client does not remember; it needs one in full" in line
    assert sum(sent_whole(result)) == 4
    assert result.nodes[0].contacts > 6
    assert diverges(strategy, result).equal


def raising_nothing(handle: Any) -> Any:
    """As a node does: what a client raises is its reply."""
    from flwr.app import Error

    def safe(message: Message, begin: float) -> tuple[Message, float]:
        try:
            answered: tuple[Message, float] = handle(message, begin)
        except BadInput as error:
            return Message(Error(2, str(error)), reply_to=message), begin
        return answered

    return safe


@pytest.mark.quick("lattice:6:0.01:dither")
@pytest.mark.parametrize("codec", CODECS)
def test_nodes_that_come_and_go_are_sent_what_they_need(codec: str) -> None:
    grid, strategy = grid_of(), strategy_of(codec=codec)
    grid.nodes[100].online = [(0.0, 30.0)]
    grid.nodes[101].online = [(0.0, 40.0), (60.0, 1e9)]
    grid.nodes[200] = honest(0, 1.0)
    grid.nodes[200].online = [(50.0, 1e9)]
    result = lived(strategy, grid, rounds=25)
    assert sum(sent_whole(result)) >= 5
    assert diverges(strategy, result).equal


def test_a_packed_answer_of_another_length_is_refused() -> None:
    grid, strategy = grid_of(), strategy_of(codec="qsgd:8")
    grid.nodes[100].tamper = changed(model=lambda reply: reply.model[4:])
    result = lived(strategy, grid, rounds=20)
    assert refusals(result) == {0: {Refusal.SHAPE.value: 1}}
    assert sum(sent_whole(result)) == 4  # after a refusal, nobody knows what the client has
    assert diverges(strategy, result).equal


@pytest.mark.quick("qsgd:8-favano")
@pytest.mark.parametrize("name", ["favano", "fedasync", "scaffold"])
@pytest.mark.parametrize("codec", ["qsgd:8", "lattice:12:0.001"])
def test_a_killed_server_still_knows_what_clients_have(
    name: str, codec: str, tmp_path: Path
) -> None:
    whole = lived(strategy_of(name, codec=codec))
    grid = grid_of()
    for number in range(1, 5):
        strategy = strategy_of(name, codec=codec, folder=tmp_path, resume=number > 1)
        time = VirtualTime(grid, kill_at=whole.rounds[-1].seconds * number / 5)
        with pytest.raises(Killed):
            lived(strategy, grid, time=time)
    result = lived(strategy_of(name, codec=codec, folder=tmp_path, resume=True), grid)
    assert same_models(result, whole)
    assert sent_whole(result) == sent_whole(whole)
    assert diverges(strategy, result).equal


def test_a_federation_goes_on_with_its_own_codec(tmp_path: Path) -> None:
    lived(strategy_of(codec="qsgd:8", folder=tmp_path), rounds=3)
    with pytest.raises(BadInput, match="differs in codec"):
        lived(strategy_of(codec="qsgd:7", folder=tmp_path, resume=True))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"codec": "zip"}, "codec=zip: need lattice:BITS:SCALE"),
        ({"codec": "qsgd:1"}, "bits=1: need 2"),
        ({"method": "quafl", "codec": "qsgd:8"}, "codec=qsgd:8: is not for quafl"),
    ],
)
def test_what_cannot_be_packed_is_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        strategy_of(**changes)
