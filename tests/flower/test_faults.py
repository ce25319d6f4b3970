"""Nodes and servers that fail: rounds go on, nothing accepted is lost, and the trace stays true."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from math import inf
from pathlib import Path
from threading import Event
from typing import Any

import pytest

pytest.importorskip("flwr")

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Error, Message, MetricRecord

from favano.errors import BadInput, WriteFailed
from favano.flower.evaluations import Evaluate
from favano.flower.journal import Head
from favano.flower.rounds import AsyncResult
from favano.flower.strategy import AsyncStrategy
from favano.flower.wire import read_reply, reply_message
from favano.methods import make_method
from favano.records.checkpoint import checkpoint_from_bytes
from favano.screening import NormGate, Refusal
from tests.flower.fake_grid import FakeGrid, Killed, NotYet, VirtualTime
from tests.flower.federations import (
    TICK,
    diverges,
    grid_of,
    honest,
    initial,
    lived,
    model_of,
    refusals,
    same_models,
    strategy_of,
)

ROUNDS = 9


def rounds_of(result: AsyncResult, client: int) -> list[float]:
    """When updates of a client were used."""
    return [past.seconds for past in result.rounds if client in past.clients]


def on_time(result: AsyncResult) -> bool:
    """Whether every round was made at a tick, and none waited."""
    return all(past.wait == 0 and past.seconds % TICK == 0 for past in result.rounds)


def test_a_node_that_dies_is_not_waited_for() -> None:
    grid, strategy = grid_of(), strategy_of(grace=3.0)
    grid.nodes[100].online = [(0.0, 30.0)]
    result = lived(strategy, grid, rounds=20)
    assert max(rounds_of(result, 0)) < 30 + TICK
    assert len(result.rounds) == 20
    assert result.longest_wait <= 3.0
    last = result.rounds[-8:]
    assert all(set(past.clients) == {1, 2} and past.wait == 0 for past in last)
    assert diverges(strategy, result).equal


def test_a_node_that_comes_back_keeps_its_number() -> None:
    grid, strategy = grid_of(), strategy_of()
    grid.nodes[100].online = [(0.0, 30.0), (60.0, inf)]
    result = lived(strategy, grid, rounds=20)
    assert not [time for time in rounds_of(result, 0) if 30 + TICK < time < 60]
    assert max(rounds_of(result, 0)) > 60
    assert [(node.client, node.node) for node in result.nodes] == [(0, 100), (1, 101), (2, 102)]
    assert diverges(strategy, result).equal


def test_a_loss_has_one_name_whoever_tells_of_it_first() -> None:
    """Flower's error in the place of a reply, or the list of nodes."""
    said: list[str] = []
    grid, strategy = grid_of(), strategy_of(say=said.append)
    grid.lost_after = 0.1
    grid.nodes[102].online = [(0.0, 28.0), (28.5, inf)]  # the list is asked for every 5 s
    lived(strategy, grid, rounds=6)
    told = [line for line in said if line.startswith("client 2")]
    again = ["client 2 is gone (node 102)", "client 2 joins (node 102)"]
    assert told == ["client 2 joins (node 102)", *again]


def test_a_node_may_join_late() -> None:
    grid, strategy = grid_of(), strategy_of()
    grid.nodes[102].online = [(40.0, inf)]
    result = lived(strategy, grid, rounds=20)
    assert min(rounds_of(result, 2)) > 40
    assert diverges(strategy, result).equal


@pytest.mark.parametrize("name", ["favano", "fedavg", "fedasync", "fedfix"])
def test_all_nodes_may_be_away_for_a_while(name: str) -> None:
    grid, strategy = grid_of(), strategy_of(name)
    for node in grid.nodes.values():
        node.online = [(0.0, 30.0), (90.0, inf)]
    result = lived(strategy, grid, rounds=16)
    assert result.rounds[-1].seconds > 90
    assert any(past.seconds > 90 and past.clients for past in result.rounds)
    assert diverges(strategy, result).equal


def test_a_new_node_takes_the_place_of_one_that_is_gone() -> None:
    """Without registered keys, a node that is started again has another number in Flower."""
    grid, strategy = grid_of(), strategy_of()
    grid.nodes[100].online = [(0.0, 30.0)]
    grid.nodes[200] = honest(0, 1.0)
    grid.nodes[200].online = [(60.0, inf)]
    grid.nodes[300] = honest(0, 1.0)  # there is no place for it
    grid.nodes[300].online = [(62.0, inf)]
    result = lived(strategy, grid, rounds=20)
    assert [node.node for node in result.nodes] == [200, 101, 102]
    assert max(rounds_of(result, 0)) > 60
    assert grid.nodes[300].handled == 0
    assert diverges(strategy, result).equal


def test_a_node_that_has_lost_its_place_is_told_of() -> None:
    """It was away for a moment, and another one was waiting."""
    said: list[str] = []
    grid, strategy = grid_of(), strategy_of(live=True, say=said.append)
    grid.nodes[100].online = [(0.0, 29.0), (32.0, inf)]
    grid.nodes[200] = honest(0, 1.0)
    grid.nodes[200].online = [(12.0, inf)]
    result = lived(strategy, grid, rounds=12)
    assert [node.node for node in result.nodes] == [200, 101, 102]
    told = [line for line in said if "node 100" in line or "node 200" in line]
    assert told == [
        "client 0 joins (node 100)",
        "node 200 waits: all 3 places are taken",
        "client 0 is gone (node 100)",
        "client 0 joins (node 200), in the place of node 100",
        "node 100 waits: all 3 places are taken",
    ]
    assert str(strategy.status["state"]).endswith("online; 1 node waits for a place")


def test_a_node_that_hangs_is_given_up_until_it_answers() -> None:
    grid, strategy = grid_of(), strategy_of()
    grid.nodes[101].hangs = (20.0, inf)
    result = lived(strategy, grid, rounds=20, timeout=10.0)
    assert max(rounds_of(result, 1)) <= 28.0
    assert on_time(result)
    pushed = [message for message in grid.pushed if message.metadata.dst_node_id == 101]
    assert len(pushed) == grid.nodes[101].handled + 1  # it is not called again
    assert diverges(strategy, result).equal


def test_an_error_of_a_client_costs_only_its_own_answer() -> None:
    grid, strategy = grid_of(), strategy_of()

    def fails_once(reply: Message, number: int) -> Message:
        if number != 2:
            return reply
        reply.__dict__["_content"] = None
        reply.__dict__["_error"] = Error(2, "the handler raised")
        return reply

    grid.nodes[100].tamper = fails_once
    result = lived(strategy, grid, rounds=20)
    assert grid.nodes[100].handled > 4
    assert on_time(result)
    assert diverges(strategy, result).equal


def test_a_node_that_always_fails_is_shown() -> None:
    grid, strategy = grid_of(), strategy_of(live=True)

    def fails(reply: Message, number: int) -> Message:
        if number > 1:
            reply.__dict__["_content"] = None
            reply.__dict__["_error"] = Error(2, "division by zero")
        return reply

    grid.nodes[100].tamper = fails
    grid.nodes[101].online = [(0.0, 30.0)]
    result = lived(strategy, grid, rounds=20)
    calls = grid.nodes[100].handled
    assert [node.failures for node in result.nodes] == [calls - 2, 0, 0]
    status: dict[str, Any] = strategy.status
    assert status["failures"] == calls - 2 > 2
    shown = [client["now"].partition(",")[0] for client in status["clients"]]
    assert shown[:2] == ["has failed", "away"]
    assert status["state"].endswith("; client 0 fails: Flower's error 2: division by zero")


def test_a_slow_upload_holds_no_tick() -> None:
    grid, strategy = grid_of(), strategy_of()
    grid.nodes[100].upload = 20.0
    result = lived(strategy, grid, rounds=20)
    assert on_time(result)
    assert rounds_of(result, 0)
    assert diverges(strategy, result).equal


def test_a_reply_that_is_announced_and_never_uploaded_is_missed() -> None:
    """Rounds that wait for everybody go on when its time is over."""
    said: list[str] = []
    grid, strategy = grid_of(), strategy_of("fedavg", selected=3, say=said.append)
    grid.nodes[102].upload = inf
    result = lived(strategy, grid, rounds=4, timeout=1e6)
    assert [set(past.clients) for past in result.rounds] == [{0, 1}] * 4
    assert max(np.diff([past.seconds for past in result.rounds])) < 120
    assert result.nodes[2].failures >= 2
    assert any("announced, and not uploaded" in line for line in said)


def test_a_late_answer_is_used_at_the_next_tick() -> None:
    grid, strategy = grid_of((1.0, 1.0, 1.0)), strategy_of(local_steps=50)
    grid.nodes[100].trip = 1.0
    result = lived(strategy, grid, rounds=10)
    assert on_time(result)
    assert rounds_of(result, 0)
    assert diverges(strategy, result).equal


def changed(**fields: object) -> Callable[[Message, int], Message]:
    """Replies of which the third is changed."""

    def tamper(reply: Message, number: int) -> Message:
        if number != 3:
            return reply
        content = read_reply(reply)
        given = {key: field(content) if callable(field) else field for key, field in fields.items()}
        for name, value in replace(content, **given).__dict__.items():  # type: ignore[arg-type]
            record = reply.content["answer"]
            assert isinstance(record, ConfigRecord)
            if name in record:
                record[name] = value
        new = given.get("model")
        if isinstance(new, bytes):
            from favano.flower.wire import _array

            reply.content["model"] = _array(new)
        return reply

    return tamper


def poisoned(value: float) -> Callable[[Message, int], Message]:
    def model(reply: object) -> bytes:
        numbers = np.frombuffer(reply.model, dtype="<f4").copy()  # type: ignore[attr-defined]
        numbers[5] = value
        return numbers.tobytes()

    return changed(model=model)


def unreadable(reply: Message, number: int) -> Message:
    if number == 3:
        reply.content["model"] = ArrayRecord({})
    return reply


class Replayer:
    """Sends its first reply once more."""

    def __init__(self) -> None:
        self.first: Message | None = None

    def __call__(self, reply: Message, number: int) -> Message:
        if self.first is None:
            self.first = reply
        if number != 3:
            return reply
        return reply_message(read_reply(self.first), reply)


@pytest.mark.quick("tamper-too large", "tamper-replayed")
@pytest.mark.parametrize(
    ("tamper", "reason"),
    [
        (poisoned(np.nan), Refusal.NOT_FINITE),
        (poisoned(np.inf), Refusal.NOT_FINITE),
        (poisoned(1e9), Refusal.NORM),
        (changed(model=lambda reply: reply.model[4:]), Refusal.SHAPE),
        (changed(model=lambda reply: reply.model * 2), Refusal.SHAPE),
        (changed(model=lambda reply: reply.model + bytes(2 << 20)), Refusal.TOO_LARGE),
        (changed(steps=5), Refusal.STEPS),
        (changed(seconds=1000.0), Refusal.STEPS),
        (changed(run="0123456789abcdef"), Refusal.UNKNOWN),
        (changed(client=1), Refusal.UNKNOWN),
        (changed(job=1000), Refusal.UNKNOWN),
        (changed(job=0), Refusal.REPLAYED),
        (Replayer(), Refusal.REPLAYED),
        (unreadable, Refusal.UNREADABLE),
    ],
)
def test_a_bad_answer_is_refused_and_the_round_goes_on(
    tamper: Callable[[Message, int], Message], reason: Refusal
) -> None:
    said: list[str] = []
    grid, strategy = grid_of(), strategy_of(norm=NormGate(100.0), say=said.append)
    grid.nodes[100].tamper = tamper
    result = lived(strategy, grid, rounds=20)
    assert refusals(result) == {0: {reason.value: 1}}
    assert result.refusals == 1
    (line,) = [line for line in said if "refused" in line]
    assert line.startswith("client 0: answer to job ")
    assert reason.value in line
    assert grid.nodes[100].handled > 4  # it is called again
    assert on_time(result)
    assert diverges(strategy, result).equal


def test_answers_to_jobs_that_were_given_up_are_stale() -> None:
    """A round ends at its deadline; the slow client answers the old call in a later one."""
    grid, strategy = grid_of(), strategy_of("fedavg", selected=3, deadline=10.0)
    grid.nodes[102].trip = 4.0
    result = lived(strategy, grid, rounds=10)
    assert refusals(result)[2].keys() == {Refusal.STALE.value}
    assert diverges(strategy, result).equal


def resumed(
    folder: Path, grid: FakeGrid, evaluate: Evaluate | None = None, **changes: Any
) -> AsyncResult:
    strategy = strategy_of(folder=folder, resume=True, **changes)
    return lived(strategy, grid, ROUNDS, evaluate_fn=evaluate)


def killed(
    strategy: AsyncStrategy, grid: FakeGrid, at: float = inf, evaluate: Evaluate | None = None
) -> None:
    """A server that does not come to its end."""
    with pytest.raises(Killed):
        lived(strategy, grid, ROUNDS, time=VirtualTime(grid, kill_at=at), evaluate_fn=evaluate)


@pytest.mark.quick("favano")
@pytest.mark.parametrize("name", ["favano", "quafl", "fedasync", "scaffold", "fedfix"])
def test_a_killed_server_goes_on_where_it_was(name: str, tmp_path: Path) -> None:
    """At whatever time it is killed, the model is that of a server that was not."""
    whole = lived(strategy_of(name), rounds=ROUNDS)
    end = whole.rounds[-1].seconds
    for place, share in enumerate((0.4, 0.93)):
        grid, folder = grid_of(), tmp_path / str(place)
        killed(strategy_of(name, folder=folder), grid, at=share * end)
        result = resumed(folder, grid, method=name)
        assert same_models(result, whole)
        assert [past.clients for past in result.rounds] == [past.clients for past in whole.rounds]
        assert diverges(strategy_of(name), result).equal


def test_a_server_may_be_killed_again_and_again(tmp_path: Path) -> None:
    whole, grid = lived(strategy_of(), rounds=ROUNDS), grid_of()
    for number in range(1, 6):
        killed(strategy_of(folder=tmp_path, resume=number > 1), grid, at=number * 11.3)
    assert same_models(resumed(tmp_path, grid), whole)


def first_number(arrays: ArrayRecord) -> MetricRecord:
    """A metric by which models can be told apart."""
    return MetricRecord({"first": float(model_of(arrays)[0])})


@pytest.mark.parametrize("delay", [0.0, 20.0])
def test_evaluations_from_before_a_crash_are_kept(delay: float, tmp_path: Path) -> None:
    """Also those that were not made yet when the server was killed."""
    grid, made = grid_of(), list[int]()

    def evaluate(number: int, arrays: ArrayRecord) -> MetricRecord | None:
        if grid.time < number * TICK + delay and not made.count(-1):
            raise NotYet
        made.append(number)
        return None if number == 2 else first_number(arrays)

    killed(strategy_of(folder=tmp_path), grid, at=5.3 * TICK, evaluate=evaluate)
    made.append(-1)  # from now on, evaluations take no time
    measured = resumed(tmp_path, grid, evaluate).evaluate_metrics_serverapp
    whole = lived(
        strategy_of(), rounds=ROUNDS, evaluate_fn=lambda _, arrays: first_number(arrays)
    ).evaluate_metrics_serverapp
    assert measured == {number: metrics for number, metrics in whole.items() if number != 2}
    assert list(measured) == [number for number in range(ROUNDS + 1) if number != 2]
    assert sorted(set(made) - {-1}) == list(range(ROUNDS + 1))
    last = max(made[: made.index(-1)])  # its checkpoint was written before it was measured
    assert {number for number in made if made.count(number) > 1} <= {last}


@pytest.mark.parametrize("number", [1, 7])
def test_a_reply_that_was_pulled_and_not_used_is_not_lost(number: int, tmp_path: Path) -> None:
    """The server is killed when it has fetched a reply, and Flower does not know that."""
    whole, grid = lived(strategy_of(), rounds=ROUNDS), grid_of()

    def kill(count: int) -> None:
        if count == number:
            raise Killed

    grid.on_confirm = kill
    killed(strategy_of(folder=tmp_path), grid)
    assert same_models(resumed(tmp_path, grid), whole)


@pytest.mark.parametrize("number", [1, 6])
def test_a_reply_whose_head_alone_was_pulled_is_fetched_again(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, grid = lived(strategy_of(), rounds=ROUNDS), grid_of()
    fetch, count = grid.fetch, [0]

    def killing(head: Head, most: int, more: Callable[[], bool]) -> object:
        count[0] += 1
        if count[0] == number:
            raise Killed
        return fetch(head, most, more)

    with monkeypatch.context() as patch:
        patch.setattr(grid, "fetch", killing)
        killed(strategy_of(folder=tmp_path), grid)
    assert same_models(resumed(tmp_path, grid), whole)


@pytest.mark.parametrize("number", [4, 11, 24])
def test_a_server_that_is_killed_while_it_writes_goes_on(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls may then go out twice; the trace says what happened, and the simulator agrees."""
    from favano.records import folder as folders

    grid, count, write = grid_of(), [0], folders.write_together

    def killing(folder: Path, contents: dict[str, bytes]) -> None:
        count[0] += 1
        if count[0] == number:
            raise Killed
        write(folder, contents)

    with monkeypatch.context() as patch:
        for module in ("checkpoint", "journal"):
            patch.setattr(f"favano.flower.{module}.write_together", killing)
        killed(strategy_of(folder=tmp_path), grid)
    result = resumed(tmp_path, grid)
    assert len(result.rounds) == ROUNDS
    assert diverges(strategy_of(), result).equal


def full_disk(patch: pytest.MonkeyPatch, is_full: Callable[[Path], bool]) -> None:
    """Let files not be written while the disk is full for them."""
    flush = os.fsync

    def fsync(number: int) -> None:
        if is_full(Path(f"/proc/self/fd/{number}").readlink()):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        flush(number)

    patch.setattr(os, "fsync", fsync)


@pytest.mark.parametrize("name", ["events.jsonl", ".model.", ".state.checkpoint."])
def test_a_checkpoint_that_could_not_be_written_spoils_no_later_one(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, when the third one is written; the server is killed two ticks later."""
    whole, grid, count = lived(strategy_of(), rounds=ROUNDS), grid_of(), [0]

    def once(path: Path) -> bool:
        count[0] += name in path.name
        return name in path.name and count[0] == 3

    with monkeypatch.context() as patch:
        full_disk(patch, once)
        killed(strategy_of(folder=tmp_path), grid, at=5.3 * TICK)
    assert count[0] > 4
    assert same_models(resumed(tmp_path, grid), whole)


def announced(grid: FakeGrid, numbers: list[int]) -> Evaluate:
    """Note which rounds are told of."""

    def evaluate(number: int, arrays: ArrayRecord) -> MetricRecord:
        numbers.append(number)
        return first_number(arrays)

    return evaluate


def saved_version(folder: Path) -> int:
    """The version in a checkpoint."""
    tree = checkpoint_from_bytes((folder / "checkpoint" / "state.checkpoint").read_bytes())
    assert isinstance(tree, list)
    version: int = json.loads(str(tree[0]))["version"]
    return version


@pytest.mark.quick("events.jsonl")
@pytest.mark.parametrize("part", ["", "events.jsonl", ".head.", ".reply."])
def test_a_full_disk_is_waited_for(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For all files, or some; for a minute. What came meanwhile is used afterwards."""
    grid, said, told = grid_of(), list[str](), list[int]()
    strategy = strategy_of(folder=tmp_path, say=said.append)

    def is_full(path: Path) -> bool:
        return 16.0 < grid.time < 76.0 and part in path.name

    full_disk(monkeypatch, is_full)
    result = lived(strategy, grid, rounds=16, evaluate_fn=announced(grid, told))
    (waits,) = [line for line in said if "could not be written" in line]
    assert "No space left on device" in waits
    assert waits.endswith("; the federation waits, for 600 s at most")
    (over,) = [line for line in said if "goes on after" in line]
    assert 50 < float(over.split()[-2]) < 62
    assert not [past for past in result.rounds if 28.0 < past.seconds < 75.0]
    assert told == list(range(17))
    assert diverges(strategy, result).equal
    assert saved_version(tmp_path) == 15


def test_a_disk_that_stays_full_ends_the_server_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And every round that it told of is kept."""
    grid, told = grid_of(), list[int]()
    with monkeypatch.context() as patch:
        full_disk(patch, lambda path: grid.time > 30.0)
        sentence = "No space left on device; .*; gave up after 600 s, go on with --resume"
        with pytest.raises(WriteFailed, match=sentence):
            lived(strategy_of(folder=tmp_path), grid, ROUNDS, evaluate_fn=announced(grid, told))
    assert max(told) == saved_version(tmp_path) + 1 > 1
    before = len(told)
    result = resumed(tmp_path, grid, announced(grid, told))
    assert set(told[before:]) >= set(range(max(told[:before]) + 1, ROUNDS + 1))
    assert min(told[before:]) >= told[before - 1]
    assert diverges(strategy_of(), result).equal


class Stuck(Executor):
    """A thread that sends, and is busy with something else from some time on until it is freed."""

    def __init__(self, time: VirtualTime, since: float) -> None:
        self._time, self._since = time, since
        self.free = Event()
        self._pool = ThreadPoolExecutor(1)
        self._pool.submit(self.free.wait)

    def submit(self, *work: Any, **more: Any) -> Future[Any]:
        busy = self._time.now() > self._since
        return (self._pool if busy else self._time.executor).submit(*work, **more)

    def leave(self) -> None:
        self._pool.shutdown(cancel_futures=True)


class Told(VirtualTime):
    """A server is told to end at some time; only then its thread is free to write."""

    ends: float
    stuck: Stuck

    def wait(self, until: float) -> None:
        if self.now() > self.ends:
            self.stuck.free.set()
            raise KeyboardInterrupt
        super().wait(until)


def test_a_server_that_is_told_to_end_writes_what_is_on_its_way(tmp_path: Path) -> None:
    grid, told = grid_of(), list[int]()
    time = Told(grid)
    time.ends, time.stuck = 4.5 * TICK, Stuck(time, 3.5 * TICK)
    workers = replace(time.workers, sending=time.stuck)
    strategy, evaluate = strategy_of(folder=tmp_path), announced(grid, told)
    with pytest.raises(KeyboardInterrupt):
        strategy.start(
            grid, initial(), ROUNDS, 1e3, None, None, evaluate, clock=time, workers=workers
        )
    time.stuck.leave()
    assert (saved_version(tmp_path), max(told)) == (4, 3)  # rounds 4 and 5 are not told of yet
    before = len(told)
    result = resumed(tmp_path, grid, evaluate)
    assert told[before:] == list(range(4, ROUNDS + 1))
    assert diverges(strategy, result).equal


@pytest.mark.quick("fedfix-26.0-False")
@pytest.mark.parametrize(
    ("name", "at", "accepted"),
    [
        ("favano", 27.0, True),
        ("fedavg", 5.5, False),
        ("fedbuff", 13.0, True),
        ("fedfix", 26.0, False),
    ],
)
def test_a_reply_that_is_damaged_on_disk_is_a_contact_missed(
    name: str, at: float, accepted: bool, tmp_path: Path
) -> None:
    """Whichever one it is, accepted or not: the client is called again, and the file is kept."""
    paces, method = (1.0, 1.1, 1.4), make_method(name, {"buffer": 2} if name == "fedbuff" else {})
    left, grid = tmp_path / "left", grid_of(paces)
    killed(strategy_of(method, folder=left), grid, at=at)
    missed = []
    for place, path in enumerate(sorted((left / "journal").iterdir())[:3]):
        said: list[str] = []
        folder, again = tmp_path / str(place), grid_of(paces)
        again.time, again.numbers = grid.time, grid.numbers
        again.posts, again.events = dict(grid.posts), list(grid.events)
        shutil.copytree(left, folder)
        damaged = folder / "journal" / path.name
        content = bytearray(damaged.read_bytes())
        content[len(content) // (place + 2)] ^= 4
        damaged.write_bytes(content)
        result = resumed(folder, again, method=method, say=said.append)
        assert len(result.rounds) == ROUNDS
        assert diverges(strategy_of(method), result).equal
        (aside,) = (folder / "journal").glob("*.damaged")
        assert aside.read_bytes() == content
        assert f"{aside}: is damaged, and kept aside; the reply in it is lost" in said
        missed.append(any("its accepted client update to job" in line for line in said))
    assert missed
    assert any(missed) == accepted


def test_a_checkpoint_is_of_one_federation(tmp_path: Path) -> None:
    lived(strategy_of(folder=tmp_path), rounds=3)
    with pytest.raises(BadInput, match="holds the checkpoint of a federation"):
        lived(strategy_of(folder=tmp_path), rounds=3)
    with pytest.raises(BadInput, match=r"differs in learning_rate"):
        resumed(tmp_path, grid_of(), learning_rate=0.2)
    with pytest.raises(BadInput, match="has no checkpoint"):
        resumed(tmp_path / "nothing", grid_of())
    state = tmp_path / "checkpoint" / "state.checkpoint"
    state.write_bytes(state.read_bytes()[:-5])
    with pytest.raises(BadInput, match="is damaged"):
        resumed(tmp_path, grid_of())


def test_only_what_is_in_use_is_on_disk(tmp_path: Path) -> None:
    """Models of open jobs, the newest one, and no replies that were used."""
    result = lived(strategy_of(folder=tmp_path), rounds=ROUNDS)
    models = list((tmp_path / "checkpoint").glob("*.model"))
    assert 1 <= len(models) <= 4
    assert len(list((tmp_path / "journal").glob("*"))) <= 3
    assert model_of(result.arrays).isfinite().all()
