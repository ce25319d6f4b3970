"""A resident node: one process that keeps network and data loaded and waits for calls.

It holds its connection as long as it lives. A SuperLink that is gone for a while is waited for, and
so is the end of an old session of the same node, which lapses within a minute of a crash.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import TypeAlias

from flwr.app import Error, Message

from favano.errors import BadInput, format_error, one_line, require
from favano.flower.addresses import check_address
from favano.flower.client import Client
from favano.flower.keys import read_key
from favano.flower.private import CallRefused, Keys, NodeConnection, connect
from favano.flower.signed_calls import Operator, calls_file, operator_of

Say: TypeAlias = Callable[[str], None]
Connect: TypeAlias = Callable[[], AbstractContextManager[NodeConnection]]

LAPSE = 60.0  # seconds until the SuperLink forgets a session without heartbeats
_POLL = 0.1  # seconds between two looks for a message
_ONCE = 20.0  # seconds that one try to connect takes at most
_AGAIN = 3.0  # seconds between two tries to connect
_LONGEST = 2000  # characters of an error that is sent
_RAISED = 2  # Flower's code of a client that raised an exception


def join(
    client: Client,
    address: str,
    *,
    root_certificate: Path | None = None,
    key: Path | None = None,
    operator: Path | None = None,
    insecure: bool = False,
    patience: float = 600.0,
    say: Say = print,
) -> None:
    """Be a node of a federation until the process is told to end.

    Args:
        client: answers the calls.
        address: HOST:PORT of the server.
        root_certificate: of the authority that signed the server's certificate.
        key: of this node, whose public half is registered at the server; None: it registers itself.
        operator: public half of the operator's key: calls that it has not signed are refused. What
            was answered is remembered in a file beside the node's key.
        insecure: plaintext, also to another machine.
        patience: seconds for which a server that is not there is waited for.
        say: is told what happens.
    """
    check_address(address, secure=root_certificate is not None, insecure=insecure)
    check_files(root_certificate, key, operator)
    certificate = None if root_certificate is None else _content(root_certificate)
    keys = None if key is None else _keys(key)
    trusted = None
    if key is not None and operator is not None:
        trusted = operator_of(operator, calls_file(key))
    once = min(patience, _ONCE)
    link = partial(connect, address, root_certificate=certificate, keys=keys, patience=once)
    with _leaving_in_good_order():
        serve(client, link, trusted, patience=patience, say=say)


def check_files(root_certificate: Path | None, key: Path | None, operator: Path | None) -> None:
    """Refuse some of the files that a node is given without the others."""
    files = {"root_certificate": root_certificate, "key": key, "operator": operator}
    lacking = [name for name, path in files.items() if path is None]
    for name, path in files.items():
        rule = f"need {', '.join(lacking)}, too: a node needs all three files of favano keys"
        require(path is None or not lacking, name, path, rule)


def serve(
    client: Client,
    link: Connect,
    operator: Operator | None = None,
    *,
    patience: float,
    say: Say,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Answer calls for ever; `Refused` if the server lets this node in no more."""
    lost = clock()  # when there was a connection last
    while True:
        try:
            with link() as connection:
                say(f"connected as node {connection.node}")
                _answer(client, connection, operator, say, sleep)
            say("lost the connection; connecting again")
            lost = clock()
        except CallRefused as error:
            waits = max(patience, LAPSE) if error.may_lapse else patience
            if clock() + _AGAIN - lost > waits:
                raise
            say(_reason(error))
        sleep(_AGAIN)


def _answer(
    client: Client,
    connection: NodeConnection,
    operator: Operator | None,
    say: Say,
    sleep: Callable[[float], None],
) -> None:
    """Answer the calls that come over one connection."""
    while True:
        if (message := connection.receive()) is None:
            sleep(_POLL)
            continue
        began = time.monotonic()
        reply = _reply(client, message, operator, connection.node, say)
        if not connection.send(reply, time.monotonic() - began):
            say("the run has ended, and nobody waits for the last reply")


def _reply(
    client: Client, message: Message, operator: Operator | None, node: int, say: Say
) -> Message:
    """The client's reply; an error that says what was wrong if there is none."""
    try:
        if operator is not None:
            operator.check(message, node)
        return client.answer(message)
    except Exception as error:  # whatever a user's network does
        why = one_line(format_error(error), _LONGEST)
        say(f"a call cannot be answered: {why}")
        return Message(Error(_RAISED, why), reply_to=message)


def _reason(error: CallRefused) -> str:
    if error.may_lapse:
        return (
            "the server does not let this node in: its key is not registered, or its session from "
            f"before a crash has not lapsed yet, which takes up to {LAPSE:g} s; trying again"
        )
    return f"cannot connect: {format_error(error)}; trying again"


@contextmanager
def _leaving_in_good_order() -> Iterator[None]:
    """Let SIGTERM end the block as Ctrl-C does, so that the server is told."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _keys(path: Path) -> Keys:
    key = read_key(path)
    return key, key.public_key()


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadInput("root_certificate", path, f"cannot be read: {error.strerror}") from None
