"""A federation in virtual time makes the model that the simulator makes of its trace."""

from __future__ import annotations

import os
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("flwr")

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord

from favano.errors import BadInput, Diverged
from favano.flower.flat_arrays import flat_arrays
from favano.flower.local_training import LocalTraining
from favano.flower.payload import unpack
from favano.flower.wire import content_bytes, read_call, read_reply
from favano.methods import make_method, our_methods
from favano.policies import Polling
from favano.schedule.contact_trace import load_trace
from favano.specification.parts import TrainingPart
from favano.theory import step_count
from favano.timing import Deterministic
from favano.transforms.momentum import Momentum
from favano.types import Vector
from tests.flower.fake_grid import FakeGrid, Killed, VirtualTime
from tests.flower.federations import (
    PACES,
    TICK,
    diverges,
    grid_of,
    initial,
    lived,
    model_of,
    same_models,
    simulated,
    strategy_of,
)

WRITTEN = ("checkpoint", "journal", "model.safetensors")


def trained(**keys: Any) -> LocalTraining:
    return LocalTraining(4, training=TrainingPart(**keys))


@pytest.mark.quick("fedavg", "asyncsgd-adaptive", "fednova")
@pytest.mark.parametrize("name", our_methods())
def test_the_simulator_makes_the_same_model_of_the_trace(name: str) -> None:
    strategy = strategy_of(name)
    result = lived(strategy, rounds=10)
    divergence = diverges(strategy, result)
    assert divergence.equal
    assert divergence.largest == 0.0
    assert len(result.rounds) == 10
    assert sum(sum(past.steps) for past in result.rounds) > 0


def test_each_client_has_its_own_k(tmp_path: Path) -> None:
    strategy = strategy_of("fednova", local_steps=[2, 5, 3], selected=3, folder=tmp_path)
    result = lived(strategy, rounds=4)
    assert result.trace is not None
    schedule = result.trace.schedule
    used = schedule.used_by < schedule.updates
    assert (schedule.steps[used] == np.array([2, 5, 3])[schedule.client[used]]).all()
    assert diverges(strategy, result).equal
    read = load_trace(tmp_path / "trace.npz").schedule
    assert np.array_equal(read.local_steps, [2, 5, 3])


@pytest.mark.quick("server optimiser", "memories and own statistics")
@pytest.mark.parametrize(
    "changes",
    [
        {"method": "fedavg", "server": ["clip:0.1", "adam:0.05"]},
        {"selected": 3, "server": ["median"]},
        {"local": LocalTraining(4, training=TrainingPart(optimiser="adam", proximal=0.1))},
        {
            "local": LocalTraining(
                4, training=TrainingPart(momentum=0.9, optimiser_state="kept", clip=1.0)
            )
        },
        {"buffers": "local"},
        {"method": "quafl", "buffers": "local"},
        {"method": "asofed", "buffers": "local"},
        {"method": "fedasync", "buffers": "local", "codec": "qsgd:8"},
        {"local": LocalTraining(4, training=TrainingPart(quantise="luq", weight_bits=4))},
        {"local": trained(rate_schedule="cosine", rate_length=60.0, warm_up=10.0)},
        {"local": trained(rate_schedule="linear", rate_over="steps", rate_length=20.0)},
    ],
    ids=[
        "server optimiser",
        "robust",
        "adam",
        "kept momentum",
        "own statistics",
        "own models and statistics",
        "memories and own statistics",
        "packed, own statistics",
        "few bits",
        "cosine",
        "by steps",
    ],
)
def test_so_it_does_with_other_training(changes: dict[str, Any]) -> None:
    strategy = strategy_of(**changes)
    result = lived(strategy)
    assert diverges(strategy, result).equal
    assert not same_models(result, lived(strategy_of(changes.get("method", "favano"))))


def test_rates_follow_the_seconds_since_the_server_began() -> None:
    """Also in a queue: clients of asynchronous SGD are called while they are at work."""
    local = trained(rate_schedule="linear", rate_length=50.0)
    trace = lived(strategy_of("asyncsgd", local=local), rounds=12).trace
    assert trace is not None
    first = trace.schedule.start_version < 0
    assert set(trace.rate[first]) == {0.1}
    handed = trace.schedule.time[
        trace.schedule.start_version[~first]
    ]  # at the update that it starts from
    assert trace.rate[~first] == pytest.approx(0.1 * (1 - np.minimum(handed / 50, 1)))


def test_rates_follow_the_steps_of_each_client() -> None:
    local = trained(rate_schedule="steps:0.5:0.4", rate_over="steps", rate_length=20.0)
    trace = lived(strategy_of(local=local)).trace
    assert trace is not None
    late = trace.schedule.first_step >= 8
    assert set(trace.rate[late]) == {0.05}
    assert set(trace.rate[~late]) == {0.1}


def test_a_server_that_goes_on_keeps_to_its_schedule(tmp_path: Path) -> None:
    changes: dict[str, Any] = {"local": trained(rate_schedule="cosine", rate_length=70.0)}
    whole, grid = lived(strategy_of(**changes)), grid_of()
    with pytest.raises(Killed):
        lived(strategy_of(**changes, folder=tmp_path), grid, time=VirtualTime(grid, kill_at=40.0))
    result = lived(strategy_of(**changes, folder=tmp_path, resume=True), grid)
    assert same_models(result, whole)


@pytest.mark.parametrize(
    "changes",
    [{"buffers": "local"}, {"local": trained(momentum=0.9, optimiser_state="kept")}],
    ids=["own statistics", "kept momentum"],
)
def test_what_clients_keep_outlasts_them_and_the_server(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    """Nodes come and go while their updates wait in a buffer; the server is killed."""
    changes["method"] = make_method("fedbuff", {"buffer_mode": "block", "buffer": 2})

    def grid() -> FakeGrid:
        new = grid_of((1.0, 2.5, 6.0))
        new.nodes[100].online = [(0.0, 5.0), (5.2, 21.0), (28.0, inf)]
        return new

    whole, again = lived(strategy_of(**changes), grid()), grid()
    with pytest.raises(Killed):
        lived(strategy_of(**changes, folder=tmp_path), again, time=VirtualTime(again, kill_at=33.0))
    strategy = strategy_of(**changes, folder=tmp_path, resume=True)
    result = lived(strategy, again)
    assert same_models(result, whole)
    assert diverges(strategy, result).equal


def test_statistics_stay_with_their_clients() -> None:
    """A client begins with the statistics that it ended with; those of the server never change."""
    grid, strategy = grid_of(), strategy_of("fedasync", buffers="local")
    shape = flat_arrays(initial()).shape
    ended: dict[int, list[Vector]] = {client: [] for client in range(3)}

    def note(reply: Message, _: int) -> Message:
        content = read_reply(reply)
        ended[content.client].append(unpack(content.model, shape)[shape.parameters :])
        return reply

    for node in grid.nodes.values():
        node.tamper = note
    result = lived(strategy, grid)
    at_first = model_of(initial())[shape.parameters :]
    assert torch.equal(model_of(result.arrays)[shape.parameters :], at_first)
    before = {client: [at_first, *later] for client, later in ended.items()}
    for call in map(read_call, grid.pushed):
        begun = unpack(call.model, shape)[shape.parameters :]
        assert torch.equal(begun, before[call.client].pop(0))
    assert len(ended[0]) > 3
    assert not torch.equal(ended[0][-1], at_first)


def test_clients_are_pulled_back_as_the_method_suggests() -> None:
    suggested = lived(strategy_of("fedprox"))
    given = lived(strategy_of("fedavg", local=trained(proximal=0.01)))
    assert same_models(suggested, given)
    assert not same_models(suggested, lived(strategy_of("fedprox", local=trained(proximal=0.0))))


def test_another_trace_makes_another_model() -> None:
    """Else the comparison above would say nothing."""
    strategy, other = strategy_of(), strategy_of(seed=8)
    result = lived(strategy)
    assert not diverges(other, result).equal
    slower = lived(strategy, grid_of((1.0, 2.5, 3.0)))
    assert model_of(slower.arrays).tolist() != model_of(result.arrays).tolist()


def test_metrics_are_by_round_by_node_and_by_time() -> None:
    result = lived(strategy_of(), rounds=6)
    assert [past.seconds for past in result.rounds] == [TICK * number for number in range(1, 7)]
    record = result.train_metrics_clientapp[6]
    assert record["seconds"] == 6 * TICK
    assert record["answers"] == 2
    assert record["local_steps"] == sum(result.rounds[5].steps)
    assert [node.client for node in result.nodes] == [0, 1, 2]
    assert [node.node for node in result.nodes] == [100, 101, 102]
    assert sum(node.contacts for node in result.nodes) == 12
    assert sum(node.steps for node in result.nodes) == sum(
        sum(past.steps) for past in result.rounds
    )
    for node, pace in zip(result.nodes, PACES, strict=True):
        assert node.seconds == pytest.approx(node.steps * pace)


def test_the_model_is_measured_before_and_after_rounds() -> None:
    asked: list[int] = []

    def measure(number: int, arrays: ArrayRecord) -> MetricRecord | None:
        asked.append(number)
        assert arrays.keys() == initial().keys()
        return None if number == 3 else MetricRecord({"size": float(model_of(arrays).norm())})

    result = lived(strategy_of(evaluate_every=3), rounds=7, evaluate_fn=measure)
    assert asked == [0, 3, 6, 7]
    assert list(result.evaluate_metrics_serverapp) == [0, 6, 7]
    last = float(model_of(result.arrays).norm())
    assert result.evaluate_metrics_serverapp[7]["size"] == last


def test_one_message_goes_out_and_one_comes_back_per_contact() -> None:
    grid = grid_of()
    result = lived(strategy_of(), grid, rounds=9)
    assert result.trace is not None
    called = len(result.trace.schedule.client)
    assert len(grid.pushed) == called
    assert result.rounds[-1].bytes_down == sum(
        content_bytes(message) for message in grid.pushed[: -len(result.rounds[-1].clients)]
    )
    updates = sum(len(past.clients) for past in result.rounds)
    assert grid.confirmed >= updates
    sizes = {content_bytes(message) for message in grid.pushed}
    assert max(sizes) - min(sizes) < 100  # nothing but numbers of different lengths
    assert result.rounds[-1].bytes_up > updates * len(model_of(initial())) * 4


def test_no_tick_waits_for_clients_that_were_not_called() -> None:
    """Messages of one client take 1.5 s each way: only the first tick that it is due at waits."""
    grid = grid_of((1.0, 1.0, 1.0))
    grid.nodes[102].trip = 1.5
    result = lived(strategy_of(grace=4.0, local_steps=50), grid, rounds=20)
    first = next(past for past in result.rounds if 2 in past.clients)
    assert result.longest_wait == first.wait == 3.0
    assert [past.wait for past in result.rounds if past is not first] == [0.0] * 19
    assert result.nodes[2].lost_seconds == pytest.approx(3.0)  # it is told to stop earlier
    assert result.nodes[1].lost_seconds == pytest.approx(0.0, abs=1.0)


def test_weights_are_measured_and_their_errors_bounded() -> None:
    result = lived(strategy_of(), rounds=60)
    law = [
        step_count(
            Polling(selected=2, local_steps=4, waiting_time=TICK, interaction_time=0.0),
            clients=3,
            law=Deterministic(),
            mean=pace,
        )
        for pace in PACES
    ]
    for node, wanted in zip(result.nodes, law, strict=True):
        assert node.mean_steps is not None
        assert node.mean_steps_error is not None
        assert node.p_positive is not None
        assert abs(node.mean_steps - wanted.mean) <= min(node.mean_steps_error, 0.6)
        assert abs(node.p_positive - wanted.p_positive) <= 0.1


def test_others_cannot_look_into_what_single_clients_have_sent(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        lived(strategy_of(folder=tmp_path / "server"))
    finally:
        os.umask(before)
    modes = {name: (tmp_path / "server" / name).stat().st_mode & 0o777 for name in WRITTEN}
    assert modes == {"checkpoint": 0o700, "journal": 0o700, "model.safetensors": 0o644}


def test_a_trace_survives_its_file(tmp_path: Path) -> None:
    strategy = strategy_of(folder=tmp_path)
    result = lived(strategy)
    assert result.trace is not None
    read = load_trace(tmp_path / "trace.npz")
    assert simulated(strategy, replace(result, trace=read)).tolist() == (
        model_of(result.arrays).tolist()
    )
    assert read.nodes.tolist() == [100, 101, 102]
    (tmp_path / "trace.npz").write_bytes(b"nothing")
    with pytest.raises(BadInput, match="is damaged"):
        load_trace(tmp_path / "trace.npz")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"clients": 0}, "clients=0: need at least 1"),
        ({"selected": 4}, r"selected=4: need 1\.\.clients \(3\)"),
        ({"tick": None}, "tick=None: need seconds between two ticks"),
        ({"learning_rate": 0}, "learning_rate=0: need a positive number"),
        ({"samples": (1, 2)}, r"samples=2: need one number per client \(3\)"),
        ({"resume": True}, "resume=True: need a folder"),
        ({"grace": 7.0}, r"grace=7\.0: need 0 <= grace < 7"),
        ({"method": "fedavg", "tick": 7.0}, r"tick=7\.0: requires a method that polls, not f"),
        (
            {"method": "fedavg", "grace": 2.0},
            r"grace=2\.0: requires a method that polls, not fed",
        ),
        ({"deadline": 9.0}, r"deadline=9\.0: requires a method with rounds, not favano"),
        ({"local": trained(learning_rate=0.2)}, "learning_rate=0.2: contradicts that of the strat"),
        ({"buffers": "averaged"}, "buffers=averaged: need average or local"),
        ({"local": trained(local_steps=5)}, "local_steps=5: contradicts that of the strategy, 4"),
        ({"local_steps": [4, 4]}, r"local_steps=\[4, 4\]: need one number for all clients, or one"),
        ({"local": trained(rate_decay=True)}, "rate_decay=True: follows the horizon"),
        ({"local": trained(rate_schedule="cosine")}, "rate_schedule=cosine: need rate_length"),
        (
            {"method": make_method("fedbuff", {"flush_at_end": True})},
            "flush_at_end=True: is about simulated time",
        ),
        ({"method": "asyncsgd", "buffers": "local"}, "buffers=local: need average with asyncsgd"),
        (
            {"method": "asyncsgd", "local": trained(momentum=0.9, optimiser_state="kept")},
            "optimiser_state=kept: need fresh with asyncsgd",
        ),
        ({"method": "scaffold", "local": trained(momentum=0.9)}, "momentum=0.9: need plain steps"),
    ],
)
def test_what_contradicts_itself_is_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        strategy_of(**changes)


def test_configurations_of_other_strategies_are_refused() -> None:
    with pytest.raises(BadInput, match="train_config"):
        lived(strategy_of(), train_config=ConfigRecord({"lr": 0.1}))


def test_a_model_that_is_lost_ends_the_federation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the server's optimiser fails, refusing client updates does not mend it."""
    monkeypatch.setattr(Momentum, "step", lambda _, state, step: (step / 0, state))
    with pytest.raises(Diverged, match="round 1: the server model has NaN or infinity"):
        lived(strategy_of("fedavg", server=["momentum"]))
