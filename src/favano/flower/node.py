"""A resident node: one process that keeps network and data loaded and waits for calls.

It holds its connection as long as it lives. A SuperLink that is gone for a while is waited for, and
so is the end of an old session of the same node, which lapses within a minute of a crash.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from flwr.app import Error, Message

from favano.errors import said
from favano.flower.client import Client
from favano.flower.private import Keys, NodeConnection, Refused, connect

_POLL = 0.1  # seconds between two looks for a message
_LAPSE = 60.0  # seconds until the SuperLink forgets a session without heartbeats
_AGAIN = 3.0  # seconds between two tries to connect
_RAISED = 2  # Flower's code of a client that raised an exception


@dataclass(frozen=True)
class Link:
    """Where a node connects, and how.

    Args:
        address: HOST:PORT of the SuperLink.
        root_certificate: None: plaintext.
        keys: None: the node registers itself.
        patience: seconds for which a SuperLink that is not there is waited for.
    """

    address: str
    root_certificate: bytes | None = None
    keys: Keys | None = None
    patience: float = 600.0


def serve(
    client: Client,
    link: Link,
    *,
    say: Callable[[str], None],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Answer calls for ever; `Refused` if the SuperLink lets this node in no more."""
    lost = clock()  # when the connection was lost
    while True:
        try:
            with connect(
                link.address, root_certificate=link.root_certificate, keys=link.keys
            ) as connection:
                say(f"connected to {link.address} as node {connection.node}")
                _answer(client, connection, say, sleep)
            say(f"lost the connection to {link.address}; connecting again")
            lost = clock()
        except Refused as error:
            patience = max(link.patience, _LAPSE) if error.may_lapse else link.patience
            if clock() - lost >= patience:
                raise
            say(_reason(link, error))
        sleep(_AGAIN)


def _answer(
    client: Client,
    connection: NodeConnection,
    say: Callable[[str], None],
    sleep: Callable[[float], None],
) -> None:
    """Answer the calls that come over one connection."""
    while True:
        if (message := connection.receive()) is None:
            sleep(_POLL)
            continue
        began = time.monotonic()
        reply = _replied(client, message, say)
        if not connection.send(reply, time.monotonic() - began):
            say("the run has ended; its last reply was not sent")


def _replied(client: Client, message: Message, say: Callable[[str], None]) -> Message:
    """The client's reply; an error that says what was wrong with the call."""
    try:
        return client.answer(message)
    except Exception as error:  # whatever a user's network does
        say(f"a call could not be answered: {said(error)}")
        return Message(Error(_RAISED, said(error)), reply_to=message)


def _reason(link: Link, error: Refused) -> str:
    if error.may_lapse:
        return (
            f"{link.address} does not let this node in: its key is not registered, or a session of "
            f"it from before a crash lapses within {_LAPSE:g} s; trying again"
        )
    return f"cannot connect to {link.address}: {said(error)}; trying again"
