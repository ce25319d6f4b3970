"""A node answers its operator alone, and each of its calls once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("flwr")

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from flwr.app import ConfigRecord, Context, Message, RecordDict

from favano.errors import BadInput
from favano.flower import client_app
from favano.flower.keys import make_keys, read_operators
from favano.flower.memory import FileStore, NoStore, Store
from favano.flower.signed_calls import Answered, Operator, Signer, operator_of, signer_of
from favano.flower.wire import Call, call_message, read_call, read_reply, read_seal, signed_bytes
from tests.flower.calls import call, data_of, in_a_task, network, sent
from tests.flower.test_node import start_model

KEY = Ed25519PrivateKey.generate()
NODE = 2**64 - 5  # Flower's numbers are large
CALL = call(b"model", job=3, correction=b"correction", seconds=2.5)


@pytest.fixture(autouse=True)
def _task() -> Iterator[None]:
    with in_a_task():
        yield


def operator(store: Store | None = None, now: float = 1000.0) -> Operator:
    return Operator([KEY.public_key()], store or NoStore(), lambda: now)


def signed(
    request: Call = CALL, *, session: int = 7, node: int = NODE, key: Ed25519PrivateKey = KEY
) -> Message:
    """A call as a node receives it; it expires at 1060."""
    return sent(call_message(request, node, ttl=60.0, sign=Signer(key, session, lambda: 1000.0)))


def test_a_call_of_the_operator_is_taken() -> None:
    operator().check(signed(), NODE)


def test_a_call_that_nobody_signed_is_refused() -> None:
    with pytest.raises(BadInput, match=r"^call=unsigned: need the operator's signature$"):
        operator().check(sent(call_message(CALL, NODE)), NODE)


def test_a_call_that_somebody_else_signed_is_refused() -> None:
    with pytest.raises(BadInput, match=r"is not the operator's$"):
        operator().check(signed(key=Ed25519PrivateKey.generate()), NODE)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("run", "fedcba9876543210"), ("client", 2), ("job", 4), ("version", 0), ("first_step", 1),
        ("steps", 1), ("rate", 0.1000001), ("seed", 8), ("training", '{"batch_size": 1}'),
        ("dtype", "float64"), ("seconds", 2.6), ("codec", "qsgd:8"), ("key", 5), ("message", 1),
        ("after", 2), ("method", "fedavg"), ("loss", 1),
    ],
)  # fmt: skip
def test_every_field_of_a_call_is_signed(name: str, value: float | str) -> None:
    message = signed()
    record = message.content["call"]
    assert isinstance(record, ConfigRecord)
    assert record[name] != value
    record[name] = value
    with pytest.raises(BadInput, match="is not the operator's"):
        operator().check(message, NODE)


def test_there_is_no_field_that_is_not_signed() -> None:
    """Also one that is added later changes what is signed."""
    texts = {signed_bytes(CALL, "1", 2, 3)}
    changes = {
        **{name: getattr(CALL, name) + 1 for name in ("client", "job", "version", "first_step")},
        **{name: getattr(CALL, name) + 1 for name in ("steps", "seed", "message", "after", "key")},
        "run": "0" * 8, "rate": 0.2, "training": "x", "model": b"m", "dtype": "float64",
        "seconds": None, "codec": "x", "correction": None, "method": "x", "loss": 1,
    }  # fmt: skip
    assert changes.keys() == Call.__dataclass_fields__.keys()
    for name, value in changes.items():
        texts.add(signed_bytes(replace(CALL, **{name: value}), "1", 2, 3))
    texts |= {signed_bytes(CALL, *place) for place in (("2", 2, 3), ("1", 1, 3), ("1", 2, 4))}
    assert len(texts) == 1 + len(changes) + 3


@pytest.mark.parametrize("name", ["model", "correction"])
def test_models_are_signed(name: str) -> None:
    message, other = signed(), call_message(replace(CALL, **{name: b"other"}), NODE)  # type: ignore[arg-type]
    message.content[name] = other.content[name]
    with pytest.raises(BadInput, match="is not the operator's"):
        operator().check(message, NODE)


@pytest.mark.parametrize(
    ("name", "value"), [("node", "12"), ("session", 8), ("expires", 9999), ("signature", b"1" * 64)]
)
def test_the_seal_is_signed(name: str, value: int | str | bytes) -> None:
    message = signed()
    record = message.content["call"]
    assert isinstance(record, ConfigRecord)
    record[f"seal-{name}"] = value
    with pytest.raises(BadInput, match="is not the operator's"):
        operator().check(message, NODE)


@pytest.mark.parametrize(
    ("name", "value"),
    [("node", "x"), ("node", 12), ("session", -1), ("session", "7"), ("expires", 1.5),
     ("signature", "text"), ("more", 1), ("format", 9)],
)  # fmt: skip
def test_a_seal_that_is_none_is_refused(name: str, value: int | str | float) -> None:
    message = signed()
    record = message.content["call"]
    assert isinstance(record, ConfigRecord)
    record[f"seal-{name}"] = value
    with pytest.raises(BadInput):
        operator().check(message, NODE)


def test_the_call_of_another_client_is_refused() -> None:
    with pytest.raises(BadInput, match=f"^node=12: is another one; this is node {NODE}$"):
        operator().check(signed(node=12), NODE)


def test_a_call_is_taken_once() -> None:
    guard = operator()
    guard.check(signed(), NODE)
    with pytest.raises(BadInput, match=r"^job=3: was asked for already$"):
        guard.check(signed(), NODE)
    guard.check(signed(replace(CALL, job=4)), NODE)


def test_calls_may_overtake_each_other_but_old_ones_are_refused() -> None:
    guard = operator()
    for job in (9, 8, *range(10, 100)):
        guard.check(signed(replace(CALL, job=job)), NODE)
    for job, rule in ((8, "is an old one"), (35, "is an old one"), (99, "asked for already")):
        with pytest.raises(BadInput, match=f"^job={job}: .*{rule}$"):
            guard.check(signed(replace(CALL, job=job)), NODE)


def test_calls_of_an_older_session_are_refused() -> None:
    """A session is newer if the server started later: for a new run, or to go on with one."""
    guard = operator()
    guard.check(signed(session=7), NODE)
    guard.check(signed(session=8), NODE)  # the same job again, after a crash of the server
    guard.check(signed(replace(CALL, run="fedcba9876543210"), session=9), NODE)
    for session in (7, 8):
        with pytest.raises(BadInput, match=f"^session={session}: is older"):
            guard.check(signed(replace(CALL, job=50), session=session), NODE)


def test_a_session_has_one_run() -> None:
    guard = operator()
    guard.check(signed(), NODE)
    with pytest.raises(BadInput, match=f"^run=fedcba9876543210: is another one; .*{CALL.run}$"):
        guard.check(signed(replace(CALL, run="fedcba9876543210", job=4)), NODE)


def test_what_was_answered_is_remembered_by_the_next_process(tmp_path: Path) -> None:
    file = tmp_path / "lab.calls"
    operator(FileStore(file)).check(signed(), NODE)
    assert Answered.from_bytes(file.read_bytes()) == Answered(7, CALL.run, (3,))
    again = operator(FileStore(file))
    with pytest.raises(BadInput, match="was asked for already"):
        again.check(signed(), NODE)
    file.write_bytes(b"{}")
    with pytest.raises(BadInput, match="whoever removes it lets old calls be answered again"):
        operator(FileStore(file))


def test_nothing_is_remembered_of_a_call_that_is_refused() -> None:
    guard = operator()
    with pytest.raises(BadInput):
        guard.check(signed(session=99, key=Ed25519PrivateKey.generate()), NODE)
    with pytest.raises(BadInput):
        guard.check(signed(session=99, node=12), NODE)
    guard.check(signed(), NODE)


@pytest.mark.parametrize(("now", "taken"), [(0.0, True), (1359.0, True), (1361.0, False)])
def test_a_call_expires(now: float, taken: bool) -> None:
    """Clocks may differ by five minutes; one that is slow does no harm."""
    guard = operator(now=now)
    if taken:
        guard.check(signed(), NODE)
    else:
        rule = "^expires=1060: the call expired 301 s ago, or the clock of this machine is wrong$"
        with pytest.raises(BadInput, match=rule):
            guard.check(signed(), NODE)


def test_each_start_of_a_server_has_a_higher_session(tmp_path: Path) -> None:
    """Also if its clock was set back."""
    make_keys(tmp_path, [], [])

    def session(now: float, folder: Path | None = tmp_path) -> int:
        signer = signer_of(tmp_path / "operator.key", folder, lambda: now)
        seal = read_seal(call_message(CALL, NODE, sign=signer))
        assert seal is not None
        return seal.session

    assert [session(now) for now in (50.0, 50.0, 60.0, 3.0)] == [50_000, 50_001, 60_000, 60_001]
    assert session(70.0, None) == 70_000
    (tmp_path / "session").write_text("many")
    with pytest.raises(BadInput, match="session=many: need a number"):
        session(80.0)


def test_two_operators_are_trusted_while_one_replaces_the_other(tmp_path: Path) -> None:
    make_keys(tmp_path, [], [])
    old = signer_of(tmp_path / "operator.key", None)
    text = (tmp_path / "operator.yaml").read_text()
    make_keys(tmp_path, [], [], ["operator"])
    new = signer_of(tmp_path / "operator.key", None, lambda: 4e9)
    both = tmp_path / "both.yaml"
    both.write_text(text + (tmp_path / "operator.yaml").read_text())
    assert len(read_operators(both)) == 2
    guard = operator_of(both, tmp_path / "lab.calls")
    for signer in (old, new):
        guard.check(sent(call_message(CALL, NODE, sign=signer)), NODE)
    only = operator_of(tmp_path / "operator.yaml", tmp_path / "ward.calls")
    with pytest.raises(BadInput, match="is not the operator's"):
        only.check(sent(call_message(CALL, NODE, sign=old)), NODE)


@pytest.mark.parametrize("text", ["", "a: b", "- x", "{", "a: ssh-rsa AAAA", "\0"])
def test_a_file_that_names_no_operator_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "operator.yaml").write_text(text)
    with pytest.raises(BadInput, match=r"need operator\.yaml, as `favano keys` makes it"):
        read_operators(tmp_path / "operator.yaml")


def test_a_client_app_answers_its_operator_alone(tmp_path: Path) -> None:
    """The files are those of the SuperNode's configuration; each call has a process of its own."""
    make_keys(tmp_path, [], [])
    config: dict[str, bool | float | int | str] = {
        "operator": str(tmp_path / "operator.yaml"), "calls": str(tmp_path / "lab.calls"),
    }  # fmt: skip
    app = client_app(network, data_of(1))
    context = Context(1, NODE, config, RecordDict(), {})
    sign = signer_of(tmp_path / "operator.key", tmp_path)
    message = call_message(call(start_model()), NODE, sign=sign)
    assert read_reply(app(message, context)).steps == 5
    refused: list[tuple[Message, str]] = [
        (message, "was asked for already"),
        (call_message(call(start_model(), job=9), NODE), "need the operator's signature"),
    ]
    for bad, rule in refused:
        with pytest.raises(BadInput, match=rule):
            app(bad, context)


def test_a_call_is_read_with_its_seal_or_without() -> None:
    assert read_call(signed()) == CALL == read_call(call_message(CALL, NODE))
    assert read_seal(call_message(CALL, NODE)) is None
    assert read_seal(signed()) is not None


def test_a_seal_takes_no_record_of_its_own() -> None:
    """Each part of a message is sent and fetched by itself."""
    plain = call_message(CALL, NODE)
    assert signed().content.keys() == plain.content.keys()


@pytest.mark.parametrize("name", ["node", "session", "expires", "signature"])
def test_a_seal_that_lacks_something_is_refused(name: str) -> None:
    message = signed()
    record = message.content["call"]
    assert isinstance(record, ConfigRecord)
    del record[f"seal-{name}"]
    with pytest.raises(BadInput, match=f"^seal-{name}=nothing: is missing$"):
        operator().check(message, NODE)
