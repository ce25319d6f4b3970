"""A grid in virtual time: nodes with real clients, whose steps take as long as they are told to."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from math import inf
from typing import Any, TypeVar

from flwr.app import Error, Message
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

from favano.flower.journal import Head
from favano.flower.safe_pull import TooLarge, TooLate, message_contents
from favano.flower.strategy import Threads

Handler = Callable[[Message, float], tuple[Message, float]]  # message, begin -> reply, end
Tamper = Callable[[Message, int], Message]  # reply, number of the reply -> reply
Found = TypeVar("Found")


class Killed(BaseException):
    """The server is killed at this instant."""


class NotYet(BaseException):
    """Something will be here at a later time."""


@dataclass
class Node:
    """A node, and what goes wrong with it."""

    handle: Handler
    online: list[tuple[float, float]] = field(default_factory=lambda: [(0.0, inf)])
    hangs: tuple[float, float] = (inf, inf)  # it takes messages in this time, and never answers
    trip: float = 0.0  # seconds that a message takes, each way
    upload: float = 0.0  # seconds from the head of a reply to its content
    tamper: Tamper = lambda reply, _: reply
    free: float = 0.0  # when it has done what it was asked so far
    handled: int = 0

    def is_online(self, time: float) -> bool:
        return any(begin <= time < end for begin, end in self.online)

    def end_of(self, time: float) -> float:
        """When it goes offline next."""
        return next((end for begin, end in self.online if begin <= time < end), time)


@dataclass(frozen=True)
class Post:
    """A reply on its way."""

    call: str
    message: Message
    head: float  # when its head is here
    content: float


class FakeGrid(Grid):
    """Nodes and messages in memory. Replies come in steps, as at a SuperLink."""

    def __init__(self, nodes: Mapping[int, Node], *, lost_after: float = 20.0) -> None:
        TaskIdentity.task_id = TaskIdentity.run_id = TaskIdentity.node_id = 1
        self.nodes, self.lost_after = dict(nodes), lost_after
        self.time = 0.0
        self.posts: dict[str, Post] = {}  # replies that nobody has asked for, by call
        self.contents: dict[str, Post] = {}  # that are not confirmed, by reply
        self.events: list[float] = []  # times at which something happens
        self.pushed: list[Message] = []
        self.keep_pushed = True
        self.confirmed = self.numbers = 0
        self.on_confirm: Callable[[int], None] = lambda _: None

    # What Flower asks of a grid.

    def set_run(self, run: Any) -> None:
        raise NotImplementedError

    @property
    def run(self) -> Any:
        raise NotImplementedError

    def create_message(self, *arguments: Any, **more: Any) -> Message:
        raise NotImplementedError

    def send_and_receive(self, *arguments: Any, **more: Any) -> Iterable[Message]:
        raise NotImplementedError

    def get_node_ids(self) -> Iterable[int]:
        return [number for number, node in self.nodes.items() if node.is_online(self.time)]

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        calls = []
        for message in messages:
            call = self._number()
            message.metadata.__dict__["_message_id"] = call
            if self.keep_pushed:
                self.pushed.append(message)
            if message.metadata.dst_node_id not in self.nodes:
                calls.append("")
                continue
            self._handle(call, message, self.nodes[message.metadata.dst_node_id])
            calls.append(call)
        return calls

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        heads = self.arrived(list(message_ids))
        return [self.contents.pop(head.message).message for head in heads]

    # The steps of a safe pull.

    def arrived(self, calls: Sequence[str]) -> list[Head]:
        here = [call for call in calls if call in self.posts and self.posts[call].head <= self.time]
        heads = []
        for call in here:
            post = self.posts.pop(call)
            number = self._number()
            self.contents[number] = post
            heads.append(Head(number, call, ()))
        return heads

    def fetch(self, head: Head, most: int, more: Callable[[], bool]) -> Mapping[str, bytes]:
        post = self.contents[head.message]
        if post.content > self.time:
            raise NotYet if more() else TooLate
        contents = message_contents(post.message, head.message)
        if sum(map(len, contents.values())) > most:
            raise TooLarge
        return contents

    def confirm(self, head: Head) -> None:
        self.confirmed += 1
        self.on_confirm(self.confirmed)
        del self.contents[head.message]

    def _number(self) -> str:
        self.numbers += 1
        return f"{self.numbers:016x}"

    def _handle(self, call: str, message: Message, node: Node) -> None:
        begin = max(self.time + node.trip, node.free)
        begin = next((max(begin, since) for since, until in node.online if begin < until), inf)
        if begin == inf or not node.is_online(self.time):
            self._post(call, Message(Error(5, "node is gone"), reply_to=message), self.time + 1.0)
            return
        if node.hangs[0] <= begin < node.hangs[1]:
            return
        reply, end = node.handle(message, begin)
        node.free = end
        if end >= node.end_of(begin):
            gone = Message(Error(5, "node is gone"), reply_to=message)
            self._post(call, gone, node.end_of(begin) + self.lost_after)
            return
        node.handled += 1
        self._post(call, node.tamper(reply, node.handled), end + node.trip, node.upload)

    def _post(self, call: str, message: Message, time: float, upload: float = 0.0) -> None:
        self.posts[call] = Post(call, message, time, time + upload)
        for event in {time, time + upload}:
            heapq.heappush(self.events, event)


class VirtualExecutor(Executor):
    """Does everything at once; what is not here yet is tried again when time has passed."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, function: Callable[..., Found], /, *given: Any, **named: Any) -> Future[Found]:
        future: Future[Found] = Future()
        self._try(future, lambda: function(*given, **named))
        return future

    def again(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future, work in waiting:
            self._try(future, work)

    def _try(self, future: Future[Any], work: Callable[[], Any]) -> None:
        try:
            future.set_result(work())
        except Killed:
            raise
        except NotYet:
            self._waiting.append((future, work))
        except Exception as error:
            future.set_exception(error)


class VirtualTime:
    """The server's clock: it jumps to the next time at which something happens."""

    def __init__(self, grid: FakeGrid, *, kill_at: float = inf, most: int = 5_000) -> None:
        self._grid, self._kill_at, self._most = grid, kill_at, most
        self.executor = VirtualExecutor()
        self.slept = 0

    @property
    def workers(self) -> Threads:
        return Threads(*(self.executor,) * 4)

    def now(self) -> float:
        return self._grid.time

    def wait(self, until: float) -> None:
        grid = self._grid
        while grid.events and grid.events[0] <= grid.time:
            heapq.heappop(grid.events)
        coming = grid.events[0] if grid.events else inf
        assert min(until, coming) < inf, "nothing will ever happen"
        grid.time = max(grid.time, min(until, coming))
        if grid.time >= self._kill_at:
            raise Killed
        self.executor.again()
        self.slept += 1
        assert self.slept < self._most, "the federation never ends"


class OwnTime:
    """The clock of a client: it stands still but for the steps."""

    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds
