"""The mailbox: calls out, replies in. Nothing here makes the server wait.

Calls are pushed, and replies found, fetched and written to disk by other threads; the server asks
now and then what has come.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import suppress
from typing import NamedTuple

from flwr.app import Message
from flwr.serverapp import Grid

from favano.errors import ClusterLost, WriteFailed
from favano.flower.journal import Head, Journal
from favano.flower.private import RunEnded
from favano.flower.safe_pull import TooLarge, TooLate, open_reply, replies_of
from favano.flower.wire import content_bytes

_UPLOAD = 60.0  # seconds that an upload may take, and
_SLOWEST = 1e5  # bytes per second of the largest reply


class Executors(NamedTuple):
    """Who does the work."""

    sending: Executor  # one thread: calls leave, and checkpoints are written, in order
    finding: Executor  # one thread
    fetching: Executor  # some threads: a slow upload holds only one of them


class Delivery(NamedTuple):
    """What came for a call: a reply, or the reason why there is none."""

    call: str
    message: Message | None
    size: int = 0  # bytes of its content
    failure: str = ""
    too_large: bool = False


class Mailbox:
    """Calls and replies of one federation.

    Args:
        grid: Flower's.
        executors: threads, or what stands for them.
        journal: where replies are kept until they are used; None: nowhere.
        most: bytes of a reply at most.
        say: told of what went wrong.
        now: seconds that have passed.
    """

    def __init__(
        self,
        grid: Grid,
        executors: Executors,
        journal: Journal | None = None,
        *,
        most: int,
        say: Callable[[str], None],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._grid, self._executors, self._journal, self._most = grid, executors, journal, most
        self._replies = replies_of(grid)
        self.awaited: dict[str, int] = {}  # job of each call that has no reply yet
        self.call_of: dict[int, str] = {}  # number of the call of each job
        self._unsent: list[int] = []  # jobs whose calls Flower did not take
        self._finding: Future[list[Head]] | None = None
        self._fetching: dict[Head, Future[Delivery]] = {}
        self._unwritten: list[Head] = []  # heads that are here alone
        self.write_error: WriteFailed | None = None  # why a reply is not in the journal yet
        self.link_error: ConnectionError | None = None  # why the SuperLink could not be asked
        self._queued: list[Head] = []  # their nodes have another reply that is being fetched
        self._node_of: dict[str, int] = {}  # of each call that has no reply yet
        self._now, self._upload = now, _UPLOAD + most / _SLOWEST
        self._closed = False
        self.bytes_down = self.bytes_up = 0
        self._say = say

    def send(self, calls: Sequence[tuple[int, Callable[[], Message]]]) -> None:
        """Push the calls of some jobs; their messages are made by the thread that sends them."""
        self._executors.sending.submit(self._send, calls)

    def collect(self) -> list[tuple[int, Delivery]]:
        """What has come since the last time, by job. What could not be written is tried again."""
        self._find()
        done = [head for head, future in self._fetching.items() if future.done()]
        arrivals = []
        for head in done:
            fetching = self._fetching.pop(head)
            if isinstance(error := fetching.exception(), WriteFailed):
                self.write_error = error
                self._fetch(head)  # it is not confirmed, and still at the SuperLink
                continue
            arrival = fetching.result()
            self.write_error = None
            self.bytes_up += arrival.size
            job = self.awaited.pop(arrival.call, None)
            self._node_of.pop(arrival.call, None)
            if job is not None:
                arrivals.append((job, arrival))
        while self._unsent:
            job = self._unsent.pop()
            arrivals.append((job, Delivery("", None, failure="Flower did not take the call")))
        return arrivals

    def close(self) -> None:
        """Wait for no upload any longer."""
        self._closed = True

    def keep(self, jobs: Iterable[int]) -> None:
        """Forget all calls but those of these jobs, and the replies to them that are on disk.

        To be called by the thread that sends.
        """
        self.call_of = {job: self.call_of[job] for job in jobs if job in self.call_of}
        if self._journal is not None:
            self._journal.keep(set(self.call_of.values()))

    def restore(self, calls: Mapping[int, str], *, same_run: bool) -> None:
        """Await the replies to these calls, of jobs by number; those in the journal are here.

        In another run of Flower, no others will come.
        """
        self.call_of = dict(calls)
        self.awaited = {call: job for job, call in calls.items()}
        if self._journal is None:
            return
        self._journal.keep(self.awaited)
        replies, heads, damaged = self._journal.read()
        for head, contents in replies.items():
            self._here(head, self._opened(head, contents))
        lost = set(damaged) - {head.call for head in (*replies, *heads)}
        for call in lost:
            self._say(f"{damaged[call]}: is damaged, and kept aside; the reply in it is lost")
            self._here(Head("", call, ()), Delivery(call, None, failure="its reply is damaged"))
        if not same_run:
            known = {head.call for head in replies}
            self.awaited = {call: job for call, job in self.awaited.items() if call in known}
            return
        for head in heads:
            self._fetch(head)

    def _here(self, head: Head, arrival: Delivery) -> None:
        """A reply that need not be fetched."""
        self._fetching[head] = Future()
        self._fetching[head].set_result(arrival)

    def _send(self, calls: Sequence[tuple[int, Callable[[], Message]]]) -> None:
        """Push one call at a time: a node can make Flower fail at whatever is pushed with its own.

        It need only confirm its call before all of it is there.
        """
        for job, make in calls:
            message = make()
            try:
                number = next(iter(self._grid.push_messages([message])), "")
            except Exception as error:  # whatever Flower says: this client is called again later
                self._say(f"the call of job {job} could not be sent: {error}")
                number = ""
            if number:
                self.call_of[job] = number
                self._node_of[number] = message.metadata.dst_node_id
                self.awaited[number] = job
                self.bytes_down += content_bytes(message)
            else:
                self._unsent.append(job)

    def _find(self) -> None:
        """Look for replies, unless somebody is looking."""
        queued, self._queued = self._queued, []
        for head in queued:
            self._fetch(head)
        on_their_way = {head.call for head in (*self._fetching, *self._queued)}
        calls = [call for call in list(self.awaited) if call not in on_their_way]
        if self._finding is None and calls:
            self._finding = self._executors.finding.submit(self._arrived, calls)
        if self._finding is not None and self._finding.done():
            finding, self._finding = self._finding, None
            for head in self._told(finding):
                self._fetch(head)

    def _told(self, finding: Future[list[Head]]) -> list[Head]:
        """What was found; a SuperLink that is away for a while is asked again."""
        try:
            heads = finding.result()
        except WriteFailed as error:
            self.write_error = error
            return []
        except RunEnded as error:
            raise ClusterLost(f"{error}; go on with --resume") from error
        except Exception as error:
            self.link_error = ConnectionError(f"replies could not be asked for: {error}")
            return []
        self.link_error = None
        if heads:
            self.write_error = None
        return heads

    def _arrived(self, calls: Sequence[str]) -> list[Head]:
        """Heads of replies; they are on disk before anything else is done."""
        if not self._unwritten:
            self._unwritten = self._replies.arrived(calls)
        if self._journal is not None:
            for head in self._unwritten:
                self._journal.begin(head)
        heads, self._unwritten = self._unwritten, []
        return heads

    def _fetch(self, head: Head) -> None:
        """Fetch a reply; of each node one at a time, so that none holds all threads."""
        node = self._node_of.get(head.call)
        busy = {self._node_of.get(other.call) for other in self._fetching} - {None}
        if node in busy:
            self._queued.append(head)
        else:
            self._fetching[head] = self._executors.fetching.submit(
                self._fetched, head, self._now() + self._upload
            )

    def _fetched(self, head: Head, until: float) -> Delivery:
        def more() -> bool:
            wanted = head.call in list(self.call_of.values())
            return wanted and not self._closed and self._now() < until

        try:
            contents = self._replies.fetch(head, self._most, more)
        except TooLarge:
            self._confirm(head)
            return Delivery(head.call, None, too_large=True)
        except TooLate:
            self._confirm(head)
            rule = f"it was announced, and not uploaded within {self._upload:.0f} s"
            return Delivery(head.call, None, failure=rule)
        except Exception as error:  # whatever Flower says: the reply is lost, the round goes on
            return Delivery(head.call, None, failure=f"{type(error).__name__}: {error}")
        if self._journal is not None:
            self._journal.finish(head, contents)
        self._confirm(head)
        return self._opened(head, contents)

    def _confirm(self, head: Head) -> None:
        """The SuperLink may forget a reply; one that has troubles keeps it until the run ends."""
        with suppress(Exception):
            self._replies.confirm(head)

    def _opened(self, head: Head, contents: Mapping[str, bytes]) -> Delivery:
        """A reply from its parts; what cannot be read is no reply."""
        try:
            message = open_reply(head, contents, self._most)
            size = 0 if message.has_error() else content_bytes(message)
        except TooLarge:
            return Delivery(head.call, None, too_large=True)
        except Exception as error:  # the parts come from a node: anything may be wrong with them
            return Delivery(head.call, None, failure=f"cannot be opened: {error}")
        return Delivery(head.call, message, size)
