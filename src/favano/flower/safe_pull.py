"""Replies as they arrive at a SuperLink, one step at a time. Names that are private in Flower.

`Grid.pull_messages` finds replies, fetches and confirms them in one go, and waits for slow uploads.
Here each step is on its own, so that a reply can be written to disk before it is confirmed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import httpx
from flwr.app import Message
from flwr.serverapp import Grid
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    iterate_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.inflatable.inflatable_utils import pull_objects
from flwr.supercore.run import RunNotRunningException

from favano.flower.journal import Head
from favano.flower.private import FIRST_PAUSE, LAST_PAUSE, RunEnded, inflated
from favano.flower.private import TooLarge as TooLarge
from favano.flower.wire import MOST_BYTES
from favano.screening import wrong_size


class TooLate(Exception):
    """A reply was announced, and its content has not come in time."""


@runtime_checkable
class Replies(Protocol):
    """Where replies come from."""

    def arrived(self, calls: Sequence[str]) -> list[Head]:
        """Heads of the replies to these calls that are here; each is told once. Does not wait."""

    def fetch(self, head: Head, most: int, more: Callable[[], bool]) -> Mapping[str, bytes]:
        """The content of a reply, of so many bytes at most; waits for an upload while `more`."""

    def confirm(self, head: Head) -> None:
        """The content is safe."""


class HttpReplies:
    """Replies at a SuperLink."""

    def __init__(self, grid: Any) -> None:
        self._grid = grid

    def arrived(self, calls: Sequence[str]) -> list[Head]:
        """Ask once; what is told is no longer at the SuperLink."""
        from flwr.proto.runtime_pb2 import PullAppMessagesRequest

        request = PullAppMessagesRequest(message_ids=calls)
        try:
            reply = self._grid._runtime_client.PullMessages(request)
        except RunNotRunningException:
            raise RunEnded from None
        except httpx.HTTPStatusError as error:
            if error.response.status_code == httpx.codes.UNAUTHORIZED:  # its token has lapsed
                raise RunEnded from None
            raise
        pairs = zip(reply.messages_list, reply.message_object_trees, strict=True)
        asked = set(calls)
        return [
            Head(
                message.metadata.message_id,
                message.metadata.reply_to_message_id,
                tuple(part.object_id for part in iterate_object_tree(tree)),
            )
            for message, tree in pairs
            if message.metadata.reply_to_message_id in asked  # Flower also has messages to servers
        ]

    def fetch(self, head: Head, most: int, more: Callable[[], bool]) -> Mapping[str, bytes]:
        """Fetch part by part; Flower asks again for parts that are not uploaded yet."""
        from flwr.supercore.inflatable.inflatable_protobuf_utils import make_pull_object_fn_protobuf

        pull = make_pull_object_fn_protobuf(
            pull_object_protobuf=self._grid._runtime_client.PullObject,
            node=self._grid.node,
            run_id=self._grid.run.run_id,
        )
        sizes: list[int] = []

        def bounded(name: str) -> bytes:
            if not more():
                raise TooLate
            part: bytes = pull(name)
            sizes.append(len(part))
            if wrong_size(sum(sizes), most):
                raise TooLarge
            return part

        parts: Mapping[str, bytes] = pull_objects(
            list(head.objects), bounded, initial_backoff=FIRST_PAUSE, backoff_cap=LAST_PAUSE
        )
        return parts

    def confirm(self, head: Head) -> None:
        """The SuperLink may forget it."""
        from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest

        request = ConfirmMessageReceivedRequest(
            node=self._grid.node,
            run_id=self._grid.run.run_id,
            message_object_id=head.message,
        )
        self._grid._runtime_client.ConfirmMessageReceived(request)


class PulledReplies:
    """Replies of any other grid, which has no steps: they are fetched when they are found."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._pulled: dict[str, Message] = {}

    def arrived(self, calls: Sequence[str]) -> list[Head]:
        """Pull what is there."""
        messages = list(self._grid.pull_messages(calls))
        self._pulled |= {message.metadata.reply_to_message_id: message for message in messages}
        return [
            Head(
                message.metadata.message_id or message.object_id,
                message.metadata.reply_to_message_id,
                (),
            )
            for message in messages
        ]

    def fetch(self, head: Head, most: int, more: Callable[[], bool]) -> Mapping[str, bytes]:
        """The message that was pulled, part by part."""
        contents = message_contents(self._pulled[head.call], head.message)
        if sum(map(len, contents.values())) > most:
            raise TooLarge
        return contents

    def confirm(self, head: Head) -> None:
        """There is nobody to tell."""
        del self._pulled[head.call]


def run_number(grid: Grid) -> int:
    """Flower's number of the run of a grid; 0 if it has none. Calls of another run are lost."""
    return int(grid.run.run_id) if hasattr(grid, "_runtime_client") else 0


def replies_of(grid: Grid) -> Replies:
    """Replies of a grid, in as many steps as it has."""
    if isinstance(grid, Replies):
        return grid
    return HttpReplies(grid) if hasattr(grid, "_runtime_client") else PulledReplies(grid)


def message_contents(message: Message, name: str) -> dict[str, bytes]:
    """All parts of a message as bytes; the message itself has this name."""
    with no_object_id_recompute():
        parts = get_all_nested_objects(message)
        return {key if part is not message else name: part.deflate() for key, part in parts.items()}


def open_reply(head: Head, contents: Mapping[str, bytes], most: int = MOST_BYTES) -> Message:
    """The message of which these are the parts, of so many bytes at most."""
    return inflated(head.message, contents, most)
