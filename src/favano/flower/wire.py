"""The two messages of a contact: a call to a client, and its reply.

A call hands a client a model and says how to train it, how many steps at most and for how long. The
reply comes once, when the time is over or the steps are made. Models are bytes in a single array,
which Flower sends without overhead; everything else is plain numbers and words. Whatever comes from
the network is checked here, field by field; nothing in it is ever executed. Who sent a call is
checked in `signed_calls`.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from math import inf, isfinite
from typing import TypeAlias

from flwr.app import (
    DEFAULT_TTL,
    Array,
    ArrayRecord,
    ConfigRecord,
    Message,
    MessageType,
    RecordDict,
)

from favano.errors import BadInput, require
from favano.flower.partitioning import DEAL

FORMAT = 2
PARTITION = "partition"  # a metric by which clients say which part of the data they have
DTYPES = ("float32", "float64")
MOST_BYTES = 2**30  # of a model, where nobody knows better

_SALT = 16  # bytes behind a model
_WHOLE = 2**63  # whole numbers on the wire are below
_TEXT = 2**16  # characters
_METRICS = 64  # of one reply
_METRIC = "metric-"
_SEAL = "seal-"
_CALL_RECORDS = {"model", "call"}, {"correction"}  # needed, and others
_LARGEST = 1e100  # of a metric: so large ones can still be added
_SECONDS = 1e9  # of training at most, three decades
_LABELS = {PARTITION: 2**31, DEAL: 2**48}  # metrics that are whole numbers below these
_RUN = re.compile(r"[0-9a-f]{8,64}")
_NODE = re.compile(r"[0-9]{1,20}")
_NAME = re.compile(r"[\w.:/ -]{1,80}")


@dataclass(frozen=True)
class Call:
    """A model for a client, and the work that it is asked to do with it."""

    run: str  # random hexadecimal digits of this federation
    client: int  # the number that the server gave this node
    job: int
    version: int  # of the model; -1 is the initial one
    first_step: int  # place in the client's stream of batches
    steps: int  # at most, K
    rate: float  # step size
    seed: int  # of batches and other draws
    training: str  # the local training, JSON (`local_training`)
    model: bytes = field(repr=False)  # nothing: the one of the key
    dtype: str = "float32"
    seconds: float | None = None  # to train at most; None: until the steps are made
    codec: str = "none"  # of the reply's model, and of this one if it has a key (`payload`)
    key: int = -1  # fingerprint of the client's model that it is read with; -1: sent in full
    message: int = 0  # number of this client's jobs before, for the draws of its codec
    after: int = -1  # the client's job that was used last, whose memory it goes on with; -1: none
    correction: bytes | None = field(default=None, repr=False)  # added to every gradient
    method: str = "unknown"  # of the server, by name
    loss: int = 0  # 1: the reply is to say the mean training loss of its steps

    def __post_init__(self) -> None:
        require(bool(_RUN.fullmatch(self.run)), "run", self.run, "need 8..64 hexadecimal digits")
        for name in ("client", "job", "first_step", "steps", "seed", "message", "loss"):
            _check_whole(name, getattr(self, name))
        for name in ("version", "key", "after"):
            _check_whole(name, getattr(self, name), least=-1)
        _check_number("rate", self.rate)
        if self.seconds is not None:
            _check_number("seconds", self.seconds)
        require(self.dtype in DTYPES, "dtype", self.dtype, f"need one of {', '.join(DTYPES)}")
        for name in ("training", "codec", "method"):
            _check_text(name, getattr(self, name))
        require(bool(self.model) or self.key >= 0, "model", "0 bytes", "need a model, or a key")


@dataclass(frozen=True)
class Seal:
    """What vouches for a call: the operator has signed it for one node, and for now."""

    node: str  # Flower's number, which is too large for a number on the wire
    session: int  # of the server: each time it starts, it has a higher one
    expires: int  # seconds since 1970
    signature: bytes

    def __post_init__(self) -> None:
        require(
            bool(_NODE.fullmatch(self.node)), "node", self.node, "need Flower's number of a node"
        )
        for name in ("session", "expires"):
            _check_whole(name, getattr(self, name))


Sign: TypeAlias = Callable[[Call, int, float], Seal]  # a call to a node, for some seconds


@dataclass(frozen=True)
class Reply:
    """A client's update to a call."""

    run: str
    client: int
    job: int
    version: int
    steps: int  # made
    seconds: float  # really trained
    samples: int  # that the client has
    model: bytes = field(repr=False)
    metrics: Mapping[str, float] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()  # metrics that came without a number that could be used
    loss: float | None = None  # mean training loss, if asked for and finite

    def __post_init__(self) -> None:
        require(bool(_RUN.fullmatch(self.run)), "run", self.run, "need 8..64 hexadecimal digits")
        for name in ("client", "job", "steps", "samples"):
            _check_whole(name, getattr(self, name))
        _check_whole("version", self.version, least=-1)
        _check_number("seconds", self.seconds, most=_SECONDS)
        count = len(self.metrics)
        require(count <= _METRICS, "metrics", count, f"need at most {_METRICS}")
        for name in (*self.metrics, *self.left_out):
            rule = "need a short name of letters, digits and . : / - _"
            require(bool(_NAME.fullmatch(name)), "metric", name, rule)
        for name in _LABELS.keys() & self.metrics.keys():
            value, below = self.metrics[name], _LABELS[name]
            good = 0 <= value < below and value == int(value)
            require(good, name, value, f"need a whole number below {below}")

    @property
    def partition(self) -> int:
        """Which part of the data the client has, if it says so; else -1."""
        return int(self.metrics.get(PARTITION, -1))

    @property
    def step_seconds(self) -> float:
        """Mean duration of a step; 0 if none was made."""
        return self.seconds / self.steps if self.steps else 0.0


def call_message(
    call: Call,
    node: int,
    *,
    ttl: float | None = None,
    group: str | None = None,
    sign: Sign | None = None,
) -> Message:
    """The message of a call to a Flower node."""
    record = _fields(call)
    content = RecordDict({"model": _array(call.model), "call": record})
    if call.correction is not None:
        content["correction"] = _array(call.correction)
    if sign is not None:
        seal = sign(call, node, DEFAULT_TTL if ttl is None else ttl)
        for name in Seal.__dataclass_fields__:  # a record of its own would take time on the way
            record[f"{_SEAL}{name}"] = getattr(seal, name)
    return Message(content, node, MessageType.TRAIN, ttl=ttl, group_id=group)


def read_call(message: Message, *, most: int = MOST_BYTES) -> Call:
    """The call in a message; refused in one sentence if it is none."""
    content, given = _content(message, *_CALL_RECORDS), _given_call(message)
    return Call(
        run=given.text("run"),
        client=given.whole("client"),
        job=given.whole("job"),
        version=given.whole("version"),
        first_step=given.whole("first_step"),
        steps=given.whole("steps"),
        rate=given.number("rate"),
        seed=given.whole("seed"),
        training=given.text("training"),
        model=_bytes(content, "model", most, least=0),
        dtype=given.text("dtype"),
        seconds=given.number("seconds") if "seconds" in given else None,
        codec=given.text("codec"),
        key=given.whole("key"),
        message=given.whole("message"),
        after=given.whole("after"),
        correction=_bytes(content, "correction", most) if "correction" in content else None,
        method=given.text("method"),
        loss=given.whole("loss"),
    )


def read_seal(message: Message) -> Seal | None:
    """The seal of a call; None if it has none."""
    given = _given_call(message)
    if not given.prefixed:
        return None
    return Seal(
        node=given.text(f"{_SEAL}node"),
        session=given.whole(f"{_SEAL}session"),
        expires=given.whole(f"{_SEAL}expires"),
        signature=given.data(f"{_SEAL}signature"),
    )


def _given_call(message: Message) -> _Given:
    """The plain values of a call and of its seal."""
    given = _Given(_content(message, *_CALL_RECORDS), "call", Call, prefix=_SEAL)
    for name in given.prefixed:
        known = name.removeprefix(_SEAL) in Seal.__dataclass_fields__
        require(known, "call", name, f"unknown; known: {', '.join(Seal.__dataclass_fields__)}")
    return given


def signed_bytes(call: Call, node: str, session: int, expires: int) -> bytes:
    """What is signed: every field of a call, digests of its models, for whom and for how long."""
    plain = {name: getattr(call, name) for name in Call.__dataclass_fields__}
    digests = {
        name: None if plain[name] is None else hashlib.sha256(plain[name]).hexdigest()
        for name in ("model", "correction")
    }
    numbers = {"rate": float(call.rate)}
    if call.seconds is not None:
        numbers["seconds"] = float(call.seconds)
    envelope = {"what": "favano call", "node": node, "session": session, "expires": expires}
    whole = {"call": {**plain, **digests, **numbers}, **envelope}
    return json.dumps(whole, sort_keys=True).encode()


def reply_message(reply: Reply, call: Message) -> Message:
    """The message of a reply to a call."""
    answer = _fields(reply)
    for name, value in reply.metrics.items():
        answer[f"{_METRIC}{name}"] = value
    return Message(RecordDict({"model": _array(reply.model), "answer": answer}), reply_to=call)


def read_reply(message: Message, *, most: int = MOST_BYTES) -> Reply:
    """The reply in a message; refused in one sentence if it is none."""
    content = _content(message, {"model", "answer"})
    given = _Given(content, "answer", Reply, prefix=_METRIC)
    metrics = {key.removeprefix(_METRIC): given.number(key) for key in given.prefixed}
    used = {
        name: value
        for name, value in metrics.items()
        if name in _LABELS or abs(value) <= _LARGEST  # NaN is not
    }
    return Reply(
        run=given.text("run"),
        client=given.whole("client"),
        job=given.whole("job"),
        version=given.whole("version"),
        steps=given.whole("steps"),
        seconds=given.number("seconds"),
        samples=given.whole("samples"),
        model=_bytes(content, "model", most),
        metrics=used,
        left_out=tuple(name for name in metrics if name not in used),
        loss=given.number("loss") if "loss" in given else None,
    )


def content_bytes(message: Message) -> int:
    """Bytes of a message's records: names and values, without Flower's own headers."""
    return sum(len(name) + record.count_bytes() for name, record in message.content.items())


def _fields(of: Call | Reply) -> ConfigRecord:
    """The plain values of a call or reply; what is absent is left out."""
    record = ConfigRecord({"format": FORMAT})
    for name in of.__dataclass_fields__:
        value = getattr(of, name)
        if isinstance(value, str | int | float):
            record[name] = value
    return record


def _array(data: bytes) -> ArrayRecord:
    """A model, with some bytes behind it that nobody can know.

    Flower keeps the parts of all messages by their digests, and believes whoever names one first:
    who knows a part of another's message before it is sent can keep it from being sent.
    """
    salted = data + secrets.token_bytes(_SALT)
    return ArrayRecord({"bytes": Array("uint8", (len(salted),), "raw", salted)})


def _content(message: Message, needed: set[str], others: Collection[str] = ()) -> RecordDict:
    """The records of a message: the needed ones, and none but these and the others."""
    if message.has_error():
        rule = f"is an error of Flower: {message.error.reason}"
        raise BadInput("message", message.error.code, rule)
    names = set(message.content)
    rule = f"need {', '.join(sorted(needed))}"
    require(needed <= names <= needed | set(others), "records", ", ".join(sorted(names)), rule)
    return message.content


def _bytes(content: RecordDict, name: str, most: int, *, least: int = 1) -> bytes:
    """The bytes of the only array of a record, without those that `_array` has put behind them."""
    record = content[name]
    if not (isinstance(record, ArrayRecord) and list(record) == ["bytes"]):
        raise BadInput(name, type(record).__name__, "need one array of bytes")
    array = record["bytes"]
    data: bytes = array.data
    plain = (array.dtype, tuple(array.shape), array.stype) == ("uint8", (len(data),), "raw")
    require(plain, name, f"{array.dtype} {array.shape} {array.stype}", "need uint8, raw, flat")
    size = len(data) - _SALT
    require(least <= size <= most, name, f"{size} bytes", f"need {least}..{most}")
    return data[:size]


class _Given:
    """The plain values of a record, each asked for by its kind."""

    def __init__(self, content: RecordDict, name: str, kind: type, prefix: str = "") -> None:
        record = content[name]
        if not isinstance(record, ConfigRecord):
            raise BadInput(name, type(record).__name__, "need a record of plain values")
        self._record = record
        self.prefixed = [key for key in record if prefix and key.startswith(prefix)]
        version = record.get("format")
        rule = f"need {FORMAT}: server and clients need the same version of favano"
        require(version == FORMAT, "format", version, rule)
        known = {"format", *kind.__dataclass_fields__, *self.prefixed}  # type: ignore[attr-defined]
        for key in record:
            require(key in known, name, key, f"unknown; known: {', '.join(sorted(known))}")

    def __contains__(self, name: str) -> bool:
        return name in self._record

    def whole(self, name: str) -> int:
        value = self._get(name)
        if not isinstance(value, int) or isinstance(value, bool):
            raise BadInput(name, value, "need a whole number")
        return value

    def number(self, name: str) -> float:
        value = self._get(name)
        if not isinstance(value, float | int) or isinstance(value, bool):
            raise BadInput(name, value, "need a number")
        return float(value)

    def text(self, name: str) -> str:
        value = self._get(name)
        if not isinstance(value, str):
            raise BadInput(name, value, "need a text")
        return value

    def data(self, name: str) -> bytes:
        value = self._get(name)
        if not isinstance(value, bytes):
            raise BadInput(name, value, "need bytes")
        return value

    def _get(self, name: str) -> object:
        require(name in self._record, name, "nothing", "is missing")
        return self._record[name]


def _check_whole(name: str, value: int, least: int = 0) -> None:
    require(least <= value < _WHOLE, name, value, f"need a whole number from {least} on")


def _check_number(name: str, value: float, most: float = inf) -> None:
    rule = "need a finite number >= 0" if most == inf else f"need a number from 0 to {most:g}"
    require(isfinite(value) and 0 <= value <= most, name, value, rule)


def _check_text(name: str, value: str) -> None:
    require(len(value) <= _TEXT, name, f"{len(value)} characters", f"need at most {_TEXT}")
