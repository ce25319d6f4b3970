"""Calls and replies survive the wire; whatever else comes is refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("flwr")

from flwr.app import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Error,
    Message,
    MetricRecord,
    RecordDict,
)
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects

from favano.errors import BadInput
from favano.flower.wire import (
    Call,
    Reply,
    call_message,
    content_bytes,
    read_call,
    read_reply,
    reply_message,
)
from tests.flower.calls import in_a_task, sent

CALL = Call(
    run="0123456789abcdef",
    client=3,
    job=17,
    version=-1,
    first_step=40,
    steps=20,
    rate=0.1,
    seed=5,
    training='{"batch_size": 8}',
    model=bytes(range(16)),
    dtype="float64",
    seconds=2.5,
    codec="qsgd:8",
    key=4,
    message=2,
    after=4,
    correction=b"\1\2",
)
REPLY = Reply(
    run=CALL.run,
    client=3,
    job=17,
    version=-1,
    steps=9,
    seconds=1.8,
    samples=120,
    model=b"\0\1\2\3",
    metrics={"loss": 0.25, "local accuracy": 1.0},
)


@pytest.fixture(autouse=True)
def _task() -> Iterator[None]:
    with in_a_task():
        yield


def test_a_call_arrives_as_it_was_sent() -> None:
    for call in (CALL, replace(CALL, seconds=None, codec="", key=-1, correction=None)):
        assert read_call(sent(call_message(call, 11))) == call


def test_a_reply_arrives_as_it_was_sent() -> None:
    assert read_reply(sent(reply_message(REPLY, call_message(CALL, 11)))) == REPLY


def test_messages_with_the_same_model_have_no_part_in_common() -> None:
    """Flower lets a node name parts of its reply as it likes, also those of another's call."""
    first, second = (call_message(replace(CALL, job=job), 11 + job) for job in range(2))
    reply = reply_message(replace(REPLY, model=CALL.model), first)
    parts = [set(get_all_nested_objects(message)) for message in (first, second, reply)]
    assert min(map(len, parts)) >= 6
    assert len(set().union(*parts)) == sum(map(len, parts))


def test_the_mean_step_takes_the_seconds_by_the_steps() -> None:
    assert REPLY.step_seconds == pytest.approx(0.2)
    assert replace(REPLY, steps=0).step_seconds == 0.0


def test_the_bytes_of_a_message_are_counted() -> None:
    """Twice the model: so many bytes more, nothing else."""
    once = content_bytes(call_message(CALL, 11))
    twice = content_bytes(call_message(replace(CALL, model=2 * CALL.model), 11))
    assert twice - once == len(CALL.model)
    assert once > len(CALL.model) + len(CALL.training) + len(CALL.correction or b"")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("run", "not hexadecimal"),
        ("run", "0"),
        ("client", -1),
        ("job", 2**63),
        ("version", -2),
        ("key", -2),
        ("after", -2),
        ("steps", -1),
        ("rate", nan),
        ("rate", -0.1),
        ("seconds", inf),
        ("dtype", "bfloat16"),
        ("training", "x" * 70_000),
    ],
)
def test_a_call_with_a_bad_value_is_refused(name: str, value: object) -> None:
    with pytest.raises(BadInput, match=name):
        replace(CALL, **{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("client", 1.0),
        ("client", True),
        ("client", -5),
        ("steps", 2**63 - 1.0),
        ("seconds", nan),
        ("seconds", "soon"),
        ("run", 7),
        ("run", "../../etc"),
        ("format", 1),
        ("metric-loss", "low"),
        ("metric-\n", 0.5),
        ("colour", "red"),
    ],
)
def test_a_reply_with_a_bad_field_is_refused(name: str, value: float | str) -> None:
    message = reply_message(REPLY, call_message(CALL, 11))
    record = message.content["answer"]
    assert isinstance(record, ConfigRecord)
    record[name] = value
    with pytest.raises(BadInput):
        read_reply(sent(message))


@pytest.mark.parametrize(
    "name", ["format", "run", "client", "job", "version", "steps", "seconds", "samples"]
)
def test_a_reply_without_a_field_is_refused(name: str) -> None:
    message = reply_message(REPLY, call_message(CALL, 11))
    record = message.content["answer"]
    assert isinstance(record, ConfigRecord)
    del record[name]
    with pytest.raises(BadInput, match=name):
        read_reply(message)


@pytest.mark.parametrize(
    "record",
    [
        ArrayRecord({}),
        ArrayRecord({"bytes": Array("uint8", (3,), "raw", b"1234")}),
        ArrayRecord({"bytes": Array("uint8", (0,), "raw", b"")}),
        ArrayRecord({"bytes": Array("uint8", (4,), "numpy.ndarray", b"1234")}),
        ArrayRecord({"bytes": Array("float32", (1,), "raw", b"1234")}),
        ArrayRecord({name: Array("uint8", (1,), "raw", b"1") for name in ("bytes", "more")}),
        MetricRecord({"bytes": 1}),
    ],
)
def test_a_model_that_is_not_plain_bytes_is_refused(record: ArrayRecord | MetricRecord) -> None:
    message = reply_message(REPLY, call_message(CALL, 11))
    message.content["model"] = record
    with pytest.raises(BadInput, match="model"):
        read_reply(message)


def test_a_model_that_is_too_large_is_refused() -> None:
    message = reply_message(REPLY, call_message(CALL, 11))
    assert read_reply(message, most=4)
    with pytest.raises(BadInput, match=r"model=4 bytes: need 1\.\.3"):
        read_reply(message, most=3)


def test_too_many_metrics_are_refused() -> None:
    with pytest.raises(BadInput, match="metrics"):
        replace(REPLY, metrics={str(number): 0.0 for number in range(65)})


def test_other_records_are_refused() -> None:
    message = call_message(CALL, 11)
    message.content["more"] = ConfigRecord({})
    with pytest.raises(BadInput, match="records"):
        read_call(message)
    with pytest.raises(BadInput, match="records"):
        read_reply(call_message(CALL, 11))
    with pytest.raises(BadInput, match="records"):
        read_call(Message(RecordDict(), 11, "train"))


def test_an_error_of_flower_is_refused_by_its_reason() -> None:
    error = Message(Error(5, "node is gone"), reply_to=call_message(CALL, 11))
    with pytest.raises(BadInput, match="5: is an error of Flower: node is gone"):
        read_reply(error)


VALUES = st.one_of(
    st.integers(-(2**63), 2**63 - 1), st.floats(), st.text(max_size=20), st.booleans(),
    st.binary(max_size=8), st.lists(st.integers(0, 9), max_size=2),
)  # fmt: skip


@given(
    changes=st.dictionaries(st.sampled_from([*Call.__dataclass_fields__, "format", "x"]), VALUES)
)
def test_whatever_comes_is_read_or_refused(changes: dict[str, int]) -> None:
    """Nothing else is raised, and what is read is what a sender could have made."""
    with in_a_task():
        message = call_message(CALL, 11)
        record = message.content["call"]
        assert isinstance(record, ConfigRecord)
        for name, value in changes.items():
            record[name] = value
        try:
            call = read_call(message)
        except BadInput:
            return
        assert read_call(call_message(call, 11)) == call
