"""Whatever a node sends, the server goes on: every field of a reply with every kind of nonsense."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from math import inf, nan
from pathlib import Path

import pytest

pytest.importorskip("flwr")

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, MetricRecord

from favano.flower.journal import Journal
from favano.flower.partitioning import Partitioning
from favano.flower.safe_pull import message_contents, open_reply
from favano.screening import Refusal
from tests.flower.fake_grid import Killed, Node, VirtualTime
from tests.flower.federations import refusals
from tests.flower.scripted import SIZE, Numbers, federated, grid_with, scripted, strategy_with

Tamper = Callable[[Message, int], Message]

FIELDS = (
    "run", "client", "job", "version", "steps", "seconds", "samples", "format", "metric-partition",
    "metric-deal", "metric-loss", "metric-\x1b[2J", "metric-", "unheard",
)  # fmt: skip
VALUES: tuple[object, ...] = (
    nan, inf, -inf, 1e300, -1e300, 1.7e308, 5e-324, -5, -0.5, 0, 0.0, 10**6, 2**62, -(2**62), True,
    "", "x" * 70_000, "\x1b[2Jround 99", b"", b"\0" * 9, [1.0, nan], [1],
)  # fmt: skip
NUMBERS = (nan, inf, -inf, 1e30, -1e30, 3.4e38, -3.4e38, 1e-45)


def answer_of(reply: Message) -> ConfigRecord:
    record = reply.content["answer"]
    assert isinstance(record, ConfigRecord)
    return record


def with_model(reply: Message, data: bytes) -> Message:
    reply.content["model"] = ArrayRecord({"bytes": Array("uint8", (len(data),), "raw", data)})
    return reply


def with_field(name: str, value: object) -> Tamper:
    def tamper(reply: Message, _: int) -> Message:
        answer_of(reply)[name] = value  # type: ignore[assignment]
        return reply

    return tamper


def without(name: str) -> Tamper:
    def tamper(reply: Message, _: int) -> Message:
        del answer_of(reply)[name]
        return reply

    return tamper


def with_numbers(value: float, *, all_of_them: bool) -> Tamper:
    def tamper(reply: Message, _: int) -> Message:
        model = reply.content["model"]
        assert isinstance(model, ArrayRecord)
        numbers = np.frombuffer(model["bytes"].data, dtype="<f4").copy()
        numbers[slice(None) if all_of_them else slice(5, 6)] = value
        return with_model(reply, numbers.tobytes())

    return tamper


def failing(code: int, reason: str) -> Tamper:
    def tamper(reply: Message, _: int) -> Message:
        return Message(Error(code, reason), reply_to=reply)

    return tamper


def other_records(reply: Message, number: int) -> Message:
    shapes: tuple[Array, ...] = (
        Array("float32", (2,), "raw", bytes(8)),
        Array("uint8", (10**9,), "raw", bytes(8)),
        Array("uint8", (8,), "numpy.ndarray", bytes(8)),
    )
    match number % 6:
        case 0:
            del reply.content["model"]
        case 1:
            reply.content["answer"] = MetricRecord({"steps": 1})
        case 2:
            reply.content["more"] = ConfigRecord({"a": 1})
        case kind:
            reply.content["model"] = ArrayRecord({"bytes": shapes[kind - 3]})
    return reply


def nonsense() -> Iterator[Tamper]:
    """Every kind of it, again and again."""
    while True:
        for name in FIELDS:
            for value in VALUES:
                yield with_field(name, value)
        for name in ("run", "client", "job", "version", "steps", "seconds", "samples", "format"):
            yield without(name)
        for value in NUMBERS:
            yield with_numbers(value, all_of_them=True)
            yield with_numbers(value, all_of_them=False)
        for data in (b"", b"\0", bytes(3 << 20)):
            yield lambda reply, _, data=data: with_model(reply, data)  # type: ignore[misc]
        for code in (0, 2, 3, -1, 2**31):
            yield failing(code, "\x1b[2J" + "y" * 900_000 if code == 2 else "")
        for _ in range(6):
            yield other_records


class Fuzzer:
    """Changes every reply of a node, each in another way."""

    def __init__(self) -> None:
        self.kinds, self.count = nonsense(), 0

    def __call__(self, reply: Message, number: int) -> Message:
        self.count += 1
        return next(self.kinds)(reply, number)


def steadily(steps: int) -> Numbers:
    return np.full(SIZE, -0.01 * steps, np.float32)


def fuzzed(messages: int, influence: float | None = 3.0, **changes: bool) -> None:
    """Two honest nodes, and one that sends nonsense."""
    said, fuzzer = list[str](), Fuzzer()
    given = {"influence": influence, "say": said.append, **changes}
    strategy = strategy_with("fedasync", 3, {}, local_steps=1, **given)
    nodes = [scripted(steadily, 1.0) for _ in range(3)]
    nodes[1].tamper = fuzzer
    result = federated(strategy, nodes, 3 * messages)
    assert fuzzer.count >= messages
    last = result.arrays.to_numpy_ndarrays()[0]
    most = 1e6 if influence else np.finfo(np.float32).max  # honest nodes move it by 0.01 each
    assert np.abs(last).max() <= most
    assert set(refusals(result)) == {1}
    assert min(result.nodes[who].contacts for who in (0, 2)) > messages / 2
    assert all(line.isprintable() and len(line) < 500 for line in said)
    assert result.nodes[1].failures > messages / 200


@pytest.fixture
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that is always refused is called at once, so that it sends much in little time."""
    monkeypatch.setattr("favano.flower.server._FIRST_WAIT", 0.0)


@pytest.mark.usefixtures("_no_pauses")
@pytest.mark.parametrize("influence", [None, 3.0])
def test_whatever_a_node_sends_the_server_goes_on(influence: float | None) -> None:
    fuzzed(420, influence, live=True)


@pytest.mark.slow
@pytest.mark.usefixtures("_no_pauses")
def test_ten_thousand_messages_of_nonsense() -> None:
    fuzzed(10_000)


def slow_liar(tamper: Tamper) -> list[Node]:
    """Two honest nodes and one that changes what it sends, of a step per ten seconds."""
    nodes = [scripted(steadily, 10.0) for _ in range(3)]
    nodes[2].tamper = tamper
    return nodes


def pauses(said: list[str]) -> list[float]:
    """Seconds until client 2 is called again after each of its updates that were refused."""
    told = [line for line in said if line.startswith("client 2: answer")]
    return [float(line.split()[-2]) if "called again in" in line else 0.0 for line in told]


def test_who_is_always_refused_is_called_less_and_less_often() -> None:
    """At once, then after 5, 10, 20, ... seconds, at most 300; the others go on."""
    said: list[str] = []
    nodes = slow_liar(lambda reply, number: reply if number == 10 else NO_PART(reply, number))
    strategy = strategy_with("fedasync", 3, {}, local_steps=1, say=said.append, live=True)
    result = federated(strategy, nodes, 300)
    waits = pauses(said)
    assert waits[:9] == [0, 5, 10, 20, 40, 80, 160, 300, 300]
    assert waits[9:12] == [0, 5, 10]  # after a client update that was used, it begins anew
    assert said.count("client 2 is called again (node 102)") >= 10
    assert result.nodes[2].contacts == 1
    assert min(result.nodes[who].contacts for who in (0, 1)) > 140
    assert "client 2 is refused, and called again in" in str(strategy.status["state"])
    assert "refused, called again in" in str(strategy.status["clients"])


@pytest.mark.slow
@pytest.mark.usefixtures("_no_pauses")
def test_a_server_refuses_a_node_as_often_as_it_likes() -> None:
    """Of 2^1024 seconds, which no number holds, it waits for 300."""
    liar, honest = scripted(steadily, 0.1), scripted(steadily, 60.0)
    liar.tamper = NO_PART
    strategy = strategy_with("fedasync", 2, {}, local_steps=1)
    result = federated(strategy, [honest, liar], 2)
    assert result.refusals > 1100  # in a row


def test_a_server_that_goes_on_remembers_who_has_to_wait(tmp_path: Path) -> None:
    grid, said = grid_with(slow_liar(NO_PART)), list[str]()
    time = VirtualTime(grid, kill_at=100.0, most=100_000)
    strategy = strategy_with("fedasync", 3, {}, local_steps=1, folder=tmp_path, say=said.append)
    start = ArrayRecord([np.zeros(SIZE, np.float32)])
    with pytest.raises(Killed):
        strategy.start(grid, start, 5000, 1e3, clock=time, workers=time.workers)
    again = strategy_with(
        "fedasync", 3, {}, local_steps=1, folder=tmp_path, resume=True, say=said.append
    )
    federated(again, grid, 50)
    assert pauses(said)[:6] == [0, 5, 10, 20, 40, 80]


def hurrying(after: int) -> Node:
    """A node of one step per second that answers at once from some call on."""
    node, calls = scripted(steadily, 1.0), [0]

    def handle(message: Message, begin: float) -> tuple[Message, float]:
        reply, end = node.handle(message, begin)
        calls[0] += 1
        if calls[0] <= after:
            return reply, end
        answer_of(reply)["seconds"] = 0.01
        return reply, begin + 0.1

    return Node(handle)


def test_more_steps_than_a_client_s_record_makes_likely_are_refused() -> None:
    """After nine client updates of a step per second, 20 steps in 0.1 s; in the end it is so."""
    said: list[str] = []
    strategy = strategy_with("fedasync", 2, {}, say=said.append)
    result = federated(strategy, [scripted(steadily, 1.0), hurrying(after=9)], 60)
    assert refusals(result) == {1: {Refusal.UNLIKELY.value: 7}}
    told = [line for line in said if "unlikely steps: 20 in 0.1 s, at 1 a second as a rule" in line]
    assert len(told) == 7  # five in a row, and two of the next four: the median is still slow
    assert result.nodes[1].contacts > 20
    few = federated(strategy_with("fedasync", 2, {}), [scripted(steadily, 1.0), hurrying(2)], 40)
    assert not few.refusals  # a slow start is no record


def test_fewer_steps_are_always_likely() -> None:
    """A machine may be busy, or asleep: a step takes a hundred times as long for a while."""
    calls, node = [0], scripted(steadily, 1.0)

    def handle(message: Message, begin: float) -> tuple[Message, float]:
        reply, end = node.handle(message, begin)
        calls[0] += 1
        late = 2000.0 * (10 < calls[0] < 13)
        answer_of(reply)["seconds"] += late  # type: ignore[operator]
        return reply, end + late

    nodes = [scripted(steadily, 1.0), Node(handle)]
    grid = grid_with(nodes)
    time, start = VirtualTime(grid, most=100_000), ArrayRecord([np.zeros(SIZE, np.float32)])
    strategy = strategy_with("fedasync", 2, {})
    result = strategy.start(grid, start, 260, 1e4, clock=time, workers=time.workers)
    assert not result.refusals
    assert result.nodes[1].contacts > 15


TINY = with_field("seconds", 5e-324)
NO_PART = with_field("metric-partition", nan)


def three(*tampers: Tamper) -> list[Node]:
    """Honest nodes, the last of which change what they send."""
    nodes = [scripted(steadily, 1.0) for _ in range(3)]
    for node, tamper in zip(nodes[::-1], tampers, strict=False):
        node.tamper = tamper
    return nodes


@pytest.mark.parametrize("tamper", [NO_PART, TINY], ids=["no part", "no time"])
def test_a_reply_that_cannot_be_used_is_refused_from_the_journal_too(
    tamper: Tamper, tmp_path: Path
) -> None:
    """The server is killed when the reply is on its disk, and goes on."""
    grid = grid_with(three(tamper))

    def kill(count: int) -> None:
        if count == 4:
            raise Killed

    grid.on_confirm = kill
    with pytest.raises(Killed):
        federated(strategy_with("favano", 3, {}, selected=3, folder=tmp_path), grid, 6)
    assert list((tmp_path / "journal").glob("*.reply"))
    grid.on_confirm = lambda _: None
    again = strategy_with("favano", 3, {}, selected=3, folder=tmp_path, resume=True)
    result = federated(again, grid, 6)
    (reasons,) = (refusals(result)[who] for who in refusals(result))
    assert sum(reasons.values()) >= 4
    assert list(refusals(result)) == [2]


def test_an_accepted_reply_goes_through_the_same_gates_from_the_journal(tmp_path: Path) -> None:
    """One that today's gates refuse: its contact counts as missed, and the sender is named."""
    grid = grid_with(three())
    time = VirtualTime(grid, kill_at=30.0)
    strategy = strategy_with("fedbuff", 3, {"buffer": 3}, folder=tmp_path)
    start = ArrayRecord([np.zeros(SIZE, np.float32)])
    with pytest.raises(Killed):
        strategy.start(grid, start, 50, 1e3, clock=time, workers=time.workers)
    journal, changed = Journal(tmp_path / "journal"), 0
    for head, contents in journal.read().replies.items():
        reply = open_reply(head, contents)
        answer_of(reply)["metric-partition"] = -5
        journal.finish(head, message_contents(reply, head.message))
        changed += 1
    assert changed
    said: list[str] = []
    again = strategy_with(
        "fedbuff", 3, {"buffer": 3}, folder=tmp_path, resume=True, say=said.append
    )
    result = federated(again, grid, 6)
    assert len(result.rounds) == 6
    told = [line for line in said if "accepted client update" in line and "partition=-5" in line]
    assert len(told) == changed


@pytest.mark.parametrize("value", [1.7e308, inf, -inf, nan])
def test_metrics_that_are_no_numbers_are_left_out(value: float) -> None:
    """Of all nodes in one round, some of which have other metrics that are."""
    said: list[str] = []
    strategy = strategy_with("fedavg", 3, {}, selected=3, say=said.append)
    bad, good = with_field("metric-loss", value), with_field("metric-other", 2.0)
    both: Tamper = lambda reply, number: good(bad(reply, number), number)  # noqa: E731
    result = federated(strategy, three(both, both, bad), 4)
    assert [dict(past.metrics) for past in result.rounds] == [{"other": 2.0}] * 4
    assert refusals(result) == {who: {Refusal.METRIC.value: 4} for who in range(3)}
    assert len([line for line in said if "metric without a number: loss" in line]) == 12
    assert [node.contacts for node in result.nodes] == [4] * 3


def test_words_of_a_node_are_escaped_and_cut_everywhere(tmp_path: Path) -> None:
    """Not even an error of 0.9 MB with terminal escapes fills a log, a page or a file."""
    said: list[str] = []
    strategy = strategy_with("fedavg", 3, {}, say=said.append, live=True, folder=tmp_path)
    words = "\x1b[2J\x1b[Hround 99: accuracy 1.0\nfavano: done\u202e" + "y" * 900_000
    federated(strategy, three(failing(2, words)), 12)
    told = [line for line in said if "Flower's error 2" in line]
    assert told
    assert all(line.isprintable() and len(line) < 300 for line in told)
    state = str(strategy.status["state"])
    assert "client 2 fails" in state
    assert state.isprintable()
    assert len(json.dumps(strategy.status)) < 5000
    events = (tmp_path / "checkpoint" / "events.jsonl").read_text()
    assert "Flower's error 2" in events
    assert max(len(line) for line in events.splitlines()) < 500
    assert "\x1b" not in events


def test_parts_of_the_data_are_those_that_were_dealt() -> None:
    said: list[str] = []
    deal = Partitioning("digits", "iid", 3, 0)
    strategy = strategy_with("fedavg", 3, {}, selected=3, deal=deal, say=said.append)
    parts = [with_field("metric-partition", part) for part in (3, 1, 1)]
    result = federated(strategy, three(*parts), 3)
    assert set(refusals(result)) == {2}
    assert any("other data: part 3, where parts are 0..2" in line for line in said)
    same = [line for line in said if "says that it has part 1 of the data, as" in line]
    assert len(same) == 1
    assert result.trace is not None
    assert set(result.trace.partition[:9]) <= {1.0, -1.0, 0.0}


@pytest.mark.parametrize("part", [-5, 1e300, 0.5, nan, 2**31])
def test_parts_are_whole_numbers(part: float) -> None:
    result = federated(
        strategy_with("fedavg", 3, {}, selected=3), three(with_field("metric-partition", part)), 3
    )
    assert set(refusals(result)[2]) == {Refusal.UNREADABLE.value}
