"""One node that announces replies and uploads none does not hold those of others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import cast

import pytest

pytest.importorskip("flwr")

from flwr.app import Message
from flwr.serverapp import Grid

from favano.flower.journal import Head, Journal
from favano.flower.mailbox import Delivery, Executors, Mailbox
from favano.flower.safe_pull import TooLarge, TooLate, message_contents
from favano.flower.wire import Reply, call_message, read_reply, reply_message
from tests.flower.attacks import blown_up
from tests.flower.calls import RUN, call, in_a_task

STALLING, HONEST, THREADS = 7, 8, 2


class Stalled:
    """Everything is announced at once; of one node, nothing is ever uploaded."""

    def __init__(self) -> None:
        self.calls: list[Message] = []

    def push_messages(self, messages: Sequence[Message]) -> list[str]:
        first = len(self.calls)
        self.calls += messages
        return [str(first + number) for number in range(len(messages))]

    def arrived(self, calls: Sequence[str]) -> list[Head]:
        return [Head(f"r{number}", number, ()) for number in calls]

    def fetch(self, head: Head, most: int, more: Callable[[], bool]) -> Mapping[str, bytes]:
        message = self.calls[int(head.call)]
        while message.metadata.dst_node_id == STALLING:
            if not more():
                raise TooLate
        reply = Reply(RUN, 1, int(head.call), -1, 1, 1.0, 10, b"1234")
        return message_contents(reply_message(reply, message), head.message)

    def confirm(self, head: Head) -> None:
        """Nothing is kept."""


def test_a_node_has_one_thread_at_a_time_and_each_fetch_its_deadline() -> None:
    seconds, said = [0.0], list[str]()
    with in_a_task(), ExitStack() as stack:
        pools = [stack.enter_context(ThreadPoolExecutor(count)) for count in (1, 1, THREADS)]
        box = Mailbox(
            cast(Grid, Stalled()),
            Executors(*pools),
            most=1000,
            say=said.append,
            now=lambda: seconds[0],
        )
        stack.callback(box.close)
        nodes = [STALLING] * 5 + [HONEST] * 3
        box.send(
            [
                (job, lambda job=job, node=node: call_message(call(b"1234", job=job), node))  # type: ignore[misc]
                for job, node in enumerate(nodes)
            ]
        )
        arrivals: dict[int, Delivery] = {}
        while len(arrivals) < 3:
            arrivals.update(box.collect())
        assert {
            read_reply(arrival.message).job for arrival in arrivals.values() if arrival.message
        } == {5, 6, 7}
        seconds[0] = 61.0
        while len(arrivals) < 4:
            arrivals.update(box.collect())
        (late,) = arrivals.keys() - {5, 6, 7}
        assert arrivals[late].failure == "it was announced, and not uploaded within 60 s"
        box.close()
        while len(arrivals) < 8:
            arrivals.update(box.collect())
    assert not said


def test_a_reply_that_would_fill_the_memory_is_refused_from_the_journal_too(tmp_path: Path) -> None:
    """Or it would end the server each time it goes on."""
    with in_a_task(), ThreadPoolExecutor(1) as pool:
        message = call_message(call(b"1234"), HONEST)
        message.metadata.__dict__["_message_id"] = "call"
        reply = reply_message(Reply(RUN, 1, 0, -1, 1, 1.0, 10, b"1234"), message)
        head = Head("r", "call", ())
        journal = Journal(tmp_path)
        journal.finish(head, blown_up(message_contents(reply, "r"), 10**6))
        grid = cast(Grid, Stalled())
        box = Mailbox(grid, Executors(pool, pool, pool), journal, most=1000, say=print)
        box.restore({0: "call"}, same_run=False)
        ((job, arrival),) = box.collect()
    assert (job, arrival.too_large, arrival.message) == (0, True, None)


class Troubled(Stalled):
    """A SuperLink that cannot forget anything now, as while its disk is full."""

    def __init__(self) -> None:
        super().__init__()
        self.confirmed: list[str] = []

    def fetch(self, head: Head, most: int, more: Callable[[], bool]) -> Mapping[str, bytes]:
        if head.call == "1":
            raise TooLarge
        return Stalled.fetch(self, head, most, more)

    def confirm(self, head: Head) -> None:
        self.confirmed.append(head.call)
        raise RuntimeError("500 Internal Server Error")


def test_a_superlink_that_cannot_forget_a_reply_does_not_end_the_server() -> None:
    grid = Troubled()
    with in_a_task(), ThreadPoolExecutor(1) as pool:
        box = Mailbox(cast(Grid, grid), Executors(pool, pool, pool), most=1000, say=print)
        calls = [partial(call_message, call(b"1234", job=job), HONEST) for job in range(2)]
        box.send(list(enumerate(calls)))
        deliveries: dict[int, Delivery] = {}
        while len(deliveries) < 2:
            deliveries.update(box.collect())
    assert deliveries[0].message is not None
    assert deliveries[1].too_large
    assert sorted(grid.confirmed) == ["0", "1"]  # also what is not wanted


class Hasty(Stalled):
    """A node confirms its call while it is pushed, and Flower fails at the whole push."""

    def push_messages(self, messages: Sequence[Message]) -> list[str]:
        if any(message.metadata.dst_node_id == STALLING for message in messages):
            raise RuntimeError("Failed to push object")
        return super().push_messages(messages)


def test_a_call_that_cannot_be_sent_keeps_no_other_from_being_sent() -> None:
    said = list[str]()
    with in_a_task(), ExitStack() as stack:
        pools = [stack.enter_context(ThreadPoolExecutor(count)) for count in (1, 1, THREADS)]
        box = Mailbox(cast(Grid, Hasty()), Executors(*pools), most=1000, say=said.append)
        stack.callback(box.close)
        box.send(
            [
                (job, partial(call_message, call(b"1234", job=job), node))
                for job, node in enumerate([HONEST, STALLING, HONEST])
            ]
        )
        arrivals: dict[int, Delivery] = {}
        while len(arrivals) < 3:
            arrivals.update(box.collect())
    assert {job for job, arrival in arrivals.items() if arrival.message is None} == {1}
    assert said == ["the call of job 1 could not be sent: Failed to push object"]
