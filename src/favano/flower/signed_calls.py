"""The operator of a federation: the server signs calls in its name, and nodes answer no others.

A call is signed for one node, for one session of the server, and until it expires. A session is one
start of the server, also one that goes on after a crash; its number is higher than that of every
session before. A node remembers the newest session that it has seen, its run, and its last jobs: a
call of an older session, of another run, and one that comes a second time are refused. The server's
clock orders its sessions; that of a node only says what has expired.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)
from flwr.app import Context, Message

from favano.errors import BadInput, require
from favano.flower.keys import read_operator_key, read_operators
from favano.flower.memory import FileStore, Store
from favano.flower.wire import Call, Seal, read_call, read_seal, signed_bytes

SESSION = "session"  # in the server's folder
_JOBS = 64  # that a node remembers: calls may overtake each other, but not by more
_TOLERANCE = 300.0  # seconds by which clocks may differ; Flower accepts no more, either


class Signer:
    """Signs calls in the operator's name.

    Args:
        key: of the operator.
        session: of this server.
        clock: seconds since 1970.
    """

    def __init__(
        self, key: Ed25519PrivateKey, session: int, clock: Callable[[], float] = time.time
    ) -> None:
        self._key, self._session, self._clock = key, session, clock

    def __call__(self, call: Call, node: int, seconds: float) -> Seal:
        """Sign a call to a node that has so many seconds to arrive and to be answered."""
        name, expires = str(node), int(self._clock() + seconds)
        signature = self._key.sign(signed_bytes(call, name, self._session, expires))
        return Seal(name, self._session, expires, signature)


def signer_of(key: Path, folder: Path | None, clock: Callable[[], float] = time.time) -> Signer:
    """A signer with a new session, which is noted in the folder before anything is signed."""
    session, loaded = int(1000 * clock()), read_operator_key(key)
    if folder is not None:
        store = FileStore(folder / SESSION)
        text = store.read().decode(errors="replace")
        require(not text or text.isdecimal(), SESSION, text, f"need a number in {folder / SESSION}")
        session = max(session, int(text or 0) + 1)
        store.write(str(session).encode())
    return Signer(loaded, session, clock)


@dataclass(frozen=True)
class Answered:
    """What a node remembers of the calls that it has answered."""

    session: int = -1
    run: str = ""
    jobs: tuple[int, ...] = ()  # the last ones of this session, in order

    def to_bytes(self) -> bytes:
        """The content of a small file."""
        return json.dumps(vars(self)).encode()

    @staticmethod
    def from_bytes(data: bytes) -> Answered:
        """The inverse of `to_bytes`."""
        if not data:
            return Answered()
        try:
            document = json.loads(data)
            return Answered(
                int(document["session"]), str(document["run"]), tuple(map(int, document["jobs"]))
            )
        except (ValueError, KeyError, TypeError) as error:
            rule = f"cannot be read: {error}; whoever removes it lets old calls be answered again"
            raise BadInput("calls", f"{len(data)} bytes", rule) from None


class Operator:
    """Whose calls a node answers.

    Args:
        keys: of the operator; two while one replaces the other.
        store: where it remembers what was answered.
        clock: seconds since 1970.
    """

    def __init__(
        self, keys: Sequence[Ed25519PublicKey], store: Store, clock: Callable[[], float] = time.time
    ) -> None:
        self._keys, self._store, self._clock = keys, store, clock
        self._answered = Answered.from_bytes(store.read())

    def check(self, message: Message, node: int) -> None:
        """Refuse a call unless the operator has signed it, for this node, and it is a new one."""
        call, seal = read_call(message), read_seal(message)
        if seal is None:
            raise BadInput("call", "unsigned", "need the operator's signature")
        signed = signed_bytes(call, seal.node, seal.session, seal.expires)
        genuine = any(_verifies(key, seal.signature, signed) for key in self._keys)
        require(genuine, "signature", seal.signature.hex()[:16], "is not the operator's")
        require(seal.node == str(node), "node", seal.node, f"is another one; this is node {node}")
        late = self._clock() - seal.expires
        rule = f"the call expired {late:.0f} s ago, or the clock of this machine is wrong"
        require(late <= _TOLERANCE, "expires", seal.expires, rule)
        self._answered = self._with(call, seal.session)
        self._store.write(self._answered.to_bytes())

    def _with(self, call: Call, session: int) -> Answered:
        """What is remembered once this call is answered."""
        known = self._answered
        rule = (
            f"is older than one that was answered ({known.session}): an old call, or another run's"
        )
        require(session >= known.session, "session", session, rule)
        if session > known.session:
            return Answered(session, call.run, (call.job,))
        require(
            call.run == known.run, "run", call.run, f"is another one; this session has {known.run}"
        )
        full = len(known.jobs) == _JOBS
        require(call.job not in known.jobs, "job", call.job, "was asked for already")
        require(not full or call.job > known.jobs[0], "job", call.job, "is an old one")
        return replace(known, jobs=tuple(sorted((*known.jobs, call.job))[-_JOBS:]))


def operator_of(public: Path, calls: Path) -> Operator:
    """The operator of a node that keeps what it remembers in a file, which must be writable."""
    store = FileStore(calls)
    try:
        store.write(store.read())
    except OSError as error:
        raise BadInput("calls", calls, f"cannot be written: {error.strerror}") from None
    return Operator(list(read_operators(public).values()), store)


def calls_file(key: Path) -> Path:
    """Where a node with this key remembers the calls that it has answered: beside the key."""
    return key.with_name(f"{key.name}.calls")


def check_operator(message: Message, context: Context) -> None:
    """Refuse a call to a ClientApp unless it is the operator's that the SuperNode was told."""
    public, calls = (context.node_config.get(word) for word in ("operator", "calls"))
    if public is not None:
        operator_of(Path(str(public)), Path(str(calls))).check(message, context.node_id)


def _verifies(key: Ed25519PublicKey, signature: bytes, signed: bytes) -> bool:
    try:
        key.verify(signature, signed)
    except InvalidSignature:
        return False
    return True
