"""Replies step by step, and the private names of Flower that this needs."""

from __future__ import annotations

import inspect
import signal
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import httpx
import pytest

pytest.importorskip("flwr")

from flwr.app import Message
from flwr.superlink.grid.http_grid import HttpGrid

from favano.errors import ClusterLost
from favano.flower import private
from favano.flower.mailbox import Executors, Mailbox
from favano.flower.safe_pull import (
    HttpReplies,
    PulledReplies,
    TooLarge,
    open_reply,
    replies_of,
    run_number,
)
from favano.flower.wire import call_message, read_reply
from tests.flower.attacks import blown_up
from tests.flower.calls import call
from tests.flower.fake_grid import FakeGrid
from tests.flower.federations import honest, initial, model_of


def test_flower_still_has_what_a_safe_pull_needs() -> None:
    from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest
    from flwr.proto.runtime_pb2 import PullAppMessagesRequest, PullAppMessagesResponse
    from flwr.supercore.inflatable.inflatable_protobuf_utils import make_pull_object_fn_protobuf
    from flwr.supercore.inflatable.inflatable_utils import pull_objects
    from flwr.supercore.runtime import RuntimeHttpClient
    from flwr.superlink.grid.http_grid import HttpGrid

    assert hasattr(HttpGrid, "_runtime_client")
    for name in ("PullMessages", "PullObject", "ConfirmMessageReceived"):
        assert hasattr(RuntimeHttpClient, name), name
    making = set(inspect.signature(make_pull_object_fn_protobuf).parameters)
    assert {"pull_object_protobuf", "node", "run_id"} <= making
    assert "pull_object_fn" in inspect.signature(pull_objects).parameters
    PullAppMessagesRequest(message_ids=["a"])
    ConfirmMessageReceivedRequest(run_id=1, message_object_id="a")
    answer = {field.name for field in PullAppMessagesResponse.DESCRIPTOR.fields}
    assert {"messages_list", "message_object_trees"} <= answer


def asked() -> tuple[FakeGrid, Message]:
    """A grid whose node has answered."""
    from favano.flower.flat_arrays import flat_arrays
    from favano.flower.payload import pack

    grid = FakeGrid({7: honest(1, 1.0)})
    message = call_message(call(pack(model_of(initial()), flat_arrays(initial()).shape)), 7)
    grid.push_messages([message])
    grid.time = 100.0
    return grid, message


def test_replies_of_any_grid_are_pulled_when_they_are_found() -> None:
    grid, message = asked()
    replies = PulledReplies(grid)
    name = message.metadata.message_id
    (head,) = replies.arrived([name, "another"])
    assert head.call == name
    assert replies.arrived([name]) == []
    reply = read_reply(open_reply(head, replies.fetch(head, 10**6, lambda: True)))
    assert (reply.client, reply.steps) == (1, 5)


def test_a_reply_that_is_too_large_is_not_read() -> None:
    grid, message = asked()
    replies = PulledReplies(grid)
    (head,) = replies.arrived([message.metadata.message_id])
    with pytest.raises(TooLarge):
        replies.fetch(head, 100, lambda: True)


def test_a_grid_with_steps_is_used_as_it_is() -> None:
    grid, _ = asked()
    assert replies_of(grid) is grid
    assert run_number(grid) == 0


def test_a_reply_that_becomes_too_large_when_it_is_opened_is_not_opened() -> None:
    """An array may name its only part again and again: kilobytes on the way, gigabytes here."""
    grid, message = asked()
    replies = PulledReplies(grid)
    (head,) = replies.arrived([message.metadata.message_id])
    honest_parts = replies.fetch(head, 10**6, lambda: True)
    twice = blown_up(honest_parts, 2)
    assert read_size(open_reply(head, twice)) == 2 * read_size(open_reply(head, honest_parts))
    bomb = blown_up(honest_parts, 10**7)
    assert sum(map(len, bomb.values())) < 10**8
    with pytest.raises(TooLarge):
        open_reply(head, bomb)
    with pytest.raises(TooLarge):
        open_reply(head, twice, most=read_size(open_reply(head, twice)) - 1)


def read_size(message: Message) -> int:
    return len(message.content.array_records["model"]["bytes"].data)


def test_only_replies_to_calls_are_told() -> None:
    """Flower also hands out messages to the server that a node has pushed, in reply to nothing."""
    from flwr.proto.message_pb2 import Message as Sent
    from flwr.proto.message_pb2 import Metadata, ObjectTree
    from flwr.proto.runtime_pb2 import PullAppMessagesResponse

    numbers = {"m1": "call", "m2": "", "m3": "../x", "m4": "another"}
    pulled = PullAppMessagesResponse(
        messages_list=[
            Sent(metadata=Metadata(message_id=name, reply_to_message_id=call))
            for name, call in numbers.items()
        ],
        message_object_trees=[ObjectTree(object_id=name) for name in numbers],
    )
    client = SimpleNamespace(PullMessages=lambda request: pulled)
    heads = HttpReplies(SimpleNamespace(_runtime_client=client)).arrived(["call", "other"])
    assert [(head.message, head.call) for head in heads] == [("m1", "call")]


@pytest.mark.parametrize("code", [401, 403])
def test_a_run_that_has_lapsed_ends_the_server_by_an_error(code: int) -> None:
    """Flower interrupts the process, as if somebody had told it to end; nobody has."""
    interrupts = list[int]()
    before = signal.signal(signal.SIGINT, lambda number, _: interrupts.append(number))
    refused = httpx.MockTransport(lambda request: httpx.Response(code))
    grid = HttpGrid("127.0.0.1:1", True, None, token="t")
    grid._runtime_client._client._transport = refused
    try:
        with private._ends_raised(), ThreadPoolExecutor(1) as pool:
            box = Mailbox(grid, Executors(pool, pool, pool), most=100, say=print)
            for number in range(2):  # Flower raises something else the second time
                box.awaited = {f"call-{number}": number}
                with pytest.raises(ClusterLost, match=r"has ended the run.*go on with --resume"):
                    collect_until_an_error(box)
    finally:
        signal.signal(signal.SIGINT, before)
    assert interrupts == []


def collect_until_an_error(box: Mailbox) -> None:
    while box.link_error is None:
        box.collect()
