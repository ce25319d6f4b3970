"""Resident nodes: what they answer, what they wait for, and who lets them in."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest

pytest.importorskip("flwr")

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from flwr.app import Message

from favano.errors import BadInput
from favano.flower import Client
from favano.flower.addresses import check_address
from favano.flower.keys import make_keys, read_key
from favano.flower.node import Connect, join, serve
from favano.flower.payload import pack, shape_of
from favano.flower.private import SECRET_HEADER, CallRefused, NodeConnection, connect
from favano.flower.signed_calls import Signer, signer_of
from favano.flower.wire import call_message, read_reply
from favano.training import FlatModel
from tests.flower.attacks import Target, outsider
from tests.flower.calls import call, data_of, in_a_task, network
from tests.flower.federation import Federation, federation, nodes, replies, wait_for

STOCK = """
from favano.flower import client_app
from tests.flower.calls import data_of, network

app = client_app(network, lambda context: data_of(int(context.node_config["partition-id"])))
"""
RESIDENT = """
import sys
from pathlib import Path
from favano.flower import Client, join
from tests.flower.calls import data_of, network

address, *files = sys.argv[1:]
client = Client(network, data_of(1))
names = dict(zip(("root_certificate", "key", "operator"), map(Path, files)))
join(client, address, **names, patience=30.0, say=lambda text: print(text, flush=True))
"""


def start_model() -> bytes:
    flat = FlatModel(network(), device="cpu")
    return pack(flat.snapshot(), shape_of(flat))


class Script:
    """A server that does one thing after the other, in its own time; then the test ends."""

    def __init__(self, *steps: CallRefused | list[Message]) -> None:
        self._steps, self.now = list(steps), 0.0
        self.sent: list[Message] = []
        self.said: list[str] = []

    @contextmanager
    def connect(self) -> Iterator[NodeConnection]:
        if not self._steps:
            raise KeyboardInterrupt
        step = self._steps.pop(0)
        if isinstance(step, CallRefused):
            raise step
        try:
            yield cast(NodeConnection, _Scripted(step, self.sent))
        except ConnectionResetError:  # Flower ends the block without an error
            return

    def serve(self, patience: float = 30.0) -> None:
        def sleep(seconds: float) -> None:
            self.now += seconds

        client = Client(network, data_of(1))
        serve(
            client, self.connect, patience=patience, say=self.said.append,
            clock=lambda: self.now, sleep=sleep,
        )  # fmt: skip


class _Scripted:
    node = 11

    def __init__(self, messages: list[Message], sent: list[Message]) -> None:
        self._messages, self._sent = messages, sent

    def receive(self) -> Message:
        if not self._messages:
            raise ConnectionResetError
        return self._messages.pop(0)

    def send(self, reply: Message, seconds: float) -> bool:
        self._sent.append(reply)
        return True


@pytest.fixture
def _task() -> Iterator[None]:
    with in_a_task():
        yield


@pytest.mark.usefixtures("_task")
def test_calls_are_answered_over_every_connection() -> None:
    asked = [call(start_model(), job=job) for job in range(3)]
    messages = [call_message(content, 11) for content in asked]
    script = Script(messages[:2], messages[2:])
    with pytest.raises(KeyboardInterrupt):
        script.serve()
    assert [read_reply(reply).job for reply in script.sent] == [0, 1, 2]
    assert sum(text.startswith("lost the connection") for text in script.said) == 2


@pytest.mark.usefixtures("_task")
def test_a_call_that_cannot_be_answered_is_answered_by_its_error() -> None:
    script = Script([call_message(call(b"1234"), 11), call_message(call(start_model()), 11)])
    with pytest.raises(KeyboardInterrupt):
        script.serve()
    bad, good = script.sent
    assert (bad.error.code, bad.error.reason) == (2, "BadInput: model=4 bytes: need 464")
    assert read_reply(good).steps == 5


@pytest.mark.usefixtures("_task")
def test_an_error_that_is_sent_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long one would not be let through the door of the server, and nobody would know."""

    def fail(*_: object) -> None:
        raise RuntimeError("x" * 10**6)

    monkeypatch.setattr(Client, "answer", fail)
    script = Script([call_message(call(start_model()), 11)])
    with pytest.raises(KeyboardInterrupt):
        script.serve()
    (reply,) = script.sent
    assert reply.error.reason is not None
    assert len(reply.error.reason) < 3000


def test_an_old_session_is_waited_for_and_so_said() -> None:
    """It lapses within a minute, whatever the patience."""
    lapsing = [CallRefused("[code: 2004] not active") for _ in range(19)]
    script = Script(*lapsing, [])
    with pytest.raises(KeyboardInterrupt):
        script.serve(patience=1.0)
    assert sum("before a crash" in text for text in script.said) == 19
    assert any(text.startswith("connected") for text in script.said)


def test_who_is_not_let_in_gives_up() -> None:
    script = Script(*[CallRefused("[code: 2004] not active") for _ in range(99)])
    with pytest.raises(CallRefused, match="2004"):
        script.serve(patience=1.0)
    assert 57.0 < script.now <= 60.0


def test_a_server_that_is_not_there_is_waited_for_with_patience() -> None:
    script = Script(*[CallRefused("no route") for _ in range(99)])
    with pytest.raises(CallRefused, match="no route"):
        script.serve(patience=30.0)
    assert 27.0 < script.now <= 30.0
    said = r"cannot connect: CallRefused: no route( \(.+\))?; trying again"  # where it is raised
    assert all(re.fullmatch(said, text) for text in script.said)


@pytest.mark.parametrize(
    ("address", "secure", "insecure"),
    [("127.0.0.1:8000", False, False), ("localhost:1", False, False), ("[::1]:8000", False, False),
     ("example.org:8000", True, False), ("example.org:8000", False, True)],
)  # fmt: skip
def test_addresses_that_may_be_joined(address: str, secure: bool, insecure: bool) -> None:
    check_address(address, secure=secure, insecure=insecure)


@pytest.mark.parametrize(
    ("address", "secure", "insecure", "says"),
    [("example.org:8000", False, False, "certificate"), ("10.0.0.1:8", False, False, "another"),
     ("example.org", True, False, "HOST:PORT"), (":8000", True, False, "HOST:PORT"),
     ("localhost:0", True, False, "HOST:PORT"), ("localhost:99999", True, False, "HOST:PORT"),
     ("localhost:8000", True, True, "not both")],
)  # fmt: skip
def test_addresses_that_are_refused(address: str, secure: bool, insecure: bool, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        check_address(address, secure=secure, insecure=insecure)


@pytest.mark.parametrize(
    ("given", "lacking"),
    [
        (["key"], "root_certificate, operator"),
        (["root_certificate", "key"], "operator"),
        (["root_certificate", "operator"], "key"),
        (["operator"], "root_certificate, key"),
    ],
)
def test_a_node_needs_all_files_or_none(given: list[str], lacking: str) -> None:
    files = {name: Path(name) for name in given}
    with pytest.raises(BadInput, match=f"^{given[0]}={given[0]}: need {lacking}, too"):
        join(Client(network, data_of(1)), "127.0.0.1:8000", **files)  # type: ignore[arg-type]


def secure_superlink(lab: Federation) -> Path:
    """Start a SuperLink with TLS and registered keys; the folder with these."""
    keys = lab.folder / "keys"
    make_keys(keys, [], ["lab", "stranger"])
    make_keys(keys / "other", [], [])
    (keys / "stranger.pub").unlink()
    lab.start_superlink(STOCK, keys=keys)
    lab.link.register_nodes(print)
    return keys


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The address of a SuperLink with TLS and one registered node, and the folder with its keys."""
    with federation(tmp_path_factory.mktemp("secure")) as lab:
        keys = secure_superlink(lab)
        yield lab.address, keys


def link(address: str, authority: Path | None, key: Path | None) -> Connect:
    """How a node connects that trusts this authority and has this key."""
    certificate = None if authority is None else (authority / "authority.crt").read_bytes()
    own = None if key is None else read_key(key)
    keys = None if own is None else (own, own.public_key())
    return lambda: connect(address, root_certificate=certificate, keys=keys, patience=1.0)


@pytest.mark.quick("plaintext")
@pytest.mark.parametrize(
    ("authority", "key", "says"),
    [
        pytest.param(".", "stranger", "2004", id="a key that is not registered"),
        pytest.param(".", None, "2001", id="no key"),
        pytest.param("other", "lab", "certificate", id="another authority"),
        pytest.param(None, None, "disconnected|reset", id="plaintext"),
    ],
)
def test_a_superlink_with_keys_refuses(
    secure: tuple[str, Path], authority: str | None, key: str | None, says: str
) -> None:
    address, keys = secure
    trusted, own = (None if name is None else keys / name for name in (authority, key))
    with pytest.raises(CallRefused, match=says), link(address, trusted, own)():
        raise AssertionError("was let in")


def test_a_registered_key_is_let_in_once(secure: tuple[str, Path]) -> None:
    address, keys = secure
    lab = link(address, keys, keys / "lab")
    with lab() as connection:
        assert connection.receive() is None
        with pytest.raises(CallRefused, match="2004"), lab():
            raise AssertionError("was let in twice")


@pytest.mark.machine
def test_a_resident_node_trains_for_no_stranger(tmp_path: Path) -> None:
    """He has broken into the SuperLink, and claims a run; he lacks the operator's key."""
    with federation(tmp_path) as lab:
        keys = secure_superlink(lab)
        files = str(keys / "authority.crt"), str(keys / "lab"), str(keys / "operator.yaml")
        with outsider(*insider(lab)) as stranger:
            stranger.start_a_run()
        node = lab.python(RESIDENT, lab.address, *files)
        with lab.served() as run:
            (number,) = nodes(run.grid, 1)
            greedy = call(start_model(), job=1, steps=1, training='{"batch_size": 1}')
            honest = call(start_model(), job=2)
            mine = signer_of(keys / "operator.key", tmp_path)
            his = Signer(Ed25519PrivateKey.generate(), 2**60)
            sent = [
                (call_message(greedy, number), "call=unsigned: need the operator's signature"),
                (call_message(honest, number, sign=his), "is not the operator's"),
                (call_message(honest, 7, sign=mine), f"another one; this is node {number}"),
                (call_message(greedy, number, sign=mine), "batch_size=1: this node needs 4"),
                (call_message(honest, number, sign=mine), ""),
                (call_message(honest, number, sign=mine), "job=2: was asked for already"),
            ]
            for message, says in sent:
                message.metadata.__dict__["_dst_node_id"] = number
                (reply,) = replies(run.grid, list(run.grid.push_messages([message])))
                if not says:
                    assert read_reply(reply).steps == 5
                    continue
                assert says in reply.error.reason
                assert says in lab.log(node)
                assert not reply.has_content()
        assert (keys / "lab.calls").exists()


EVIL = """
import os
from pathlib import Path
(Path({folder!r}) / ("stolen from " + os.environ["FAVANO_ACTOR"])).touch()
"""


@pytest.mark.machine
def test_a_stock_node_executes_no_stranger_s_file(tmp_path: Path) -> None:
    """The ward does, which was started without the operator's name: so the attack is a real one."""
    with federation(tmp_path) as lab:
        keys = tmp_path / "keys"
        make_keys(keys, [], ["lab", "ward"])
        lab.start_superlink(STOCK, keys=keys)
        lab.link.register_nodes(print)
        certificate = ("--root-certificates", str(keys / "authority.crt"))
        for name in ("lab", "ward"):
            key = ("--auth-supernode-private-key", str(keys / name))
            trusts = ("--trusted-entities", str(keys / "operator.yaml")) if name == "lab" else ()
            lab.stock_node("partition-id=1", *certificate, *key, *trusts, actor=name)
        with outsider(*insider(lab)) as stranger:
            stranger.start_a_run(EVIL.format(folder=str(tmp_path)).encode())
        for mine in (False, True):
            if mine:
                lab.link.submit()
            with lab.served() as run:
                here = nodes(run.grid, 2)
                messages = [call_message(call(start_model()), node) for node in here]
                updates = replies(run.grid, list(run.grid.push_messages(messages)))
                assert [reply.has_error() for reply in updates] == 2 * [not mine]
            assert [path.name for path in tmp_path.glob("stolen*")] == ["stolen from ward"]


def insider(lab: Federation) -> tuple[Target, dict[str, str]]:
    """The SuperLink, for one who has its secret."""
    assert lab.link.authority is not None
    target = Target("127.0.0.1", lab.link.inside, lab.link.authority)
    return target, {SECRET_HEADER: lab.link.secret}


@pytest.mark.machine
def test_stock_and_resident_nodes_answer_alike(tmp_path: Path) -> None:
    with federation(tmp_path) as lab:
        lab.start_superlink(STOCK)
        lab.link.submit()
        lab.python(RESIDENT, lab.address)
        lab.stock_node("partition-id=1")
        with lab.served() as run:
            here = nodes(run.grid, 2)
            asked = call(start_model())
            names = list(run.grid.push_messages([call_message(asked, node) for node in here]))
            updates = [read_reply(reply) for reply in replies(run.grid, names)]
    expected = Client(network, data_of(1)).reply(asked)
    assert [reply.model for reply in updates] == 2 * [expected.model]


@pytest.mark.machine
def test_a_node_that_was_killed_comes_back_as_the_same_node(tmp_path: Path) -> None:
    """Its old session lapses within a minute; until then it waits, and says so."""
    with federation(tmp_path) as lab:
        keys = secure_superlink(lab)
        files = str(keys / "authority.crt"), str(keys / "lab"), str(keys / "operator.yaml")
        lab.link.submit()
        first = lab.python(RESIDENT, lab.address, *files)
        with lab.served() as run:
            (node,) = nodes(run.grid, 1)
            first.send_signal(signal.SIGKILL)
            first.wait()
            second = lab.python(RESIDENT, lab.address, *files)
            wait_for(lambda: "connected as node" in lab.log(second), "the node")
            assert "before a crash" in lab.log(second)
            assert f"connected as node {node}" in lab.log(second)
            sign = signer_of(keys / "operator.key", tmp_path)
            message = call_message(call(start_model()), node, sign=sign)
            (reply,) = replies(run.grid, list(run.grid.push_messages([message])))
            assert read_reply(reply).steps == 5


@pytest.mark.machine
def test_nodes_and_runs_outlast_a_superlink_that_is_killed_and_restarted(tmp_path: Path) -> None:
    with federation(tmp_path) as lab:
        first = lab.start_superlink(STOCK)
        lab.link.submit()
        lab.python(RESIDENT, lab.address)
        with lab.served() as run:
            (node,) = nodes(run.grid, 1)
            for job in range(2):
                message = call_message(call(start_model(), job=job), node)
                (reply,) = replies(run.grid, list(run.grid.push_messages([message])))
                assert read_reply(reply).job == job
                if job == 0:
                    first.send_signal(signal.SIGKILL)
                    first.wait()
                    lab.start_superlink()
