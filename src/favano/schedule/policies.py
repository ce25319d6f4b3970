"""Contact policies: whom the server asks and when, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from favano.errors import require
from favano.types import Floats, Ints

Interruption = Literal["redraw", "resume", "keep"]
StepCount = Literal["durations", "literal", "literal-zero"]
RoundTime = Literal["sum", "one-draw", "mean"]
AtDeadline = Literal["drop", "take"]
HandOut = Literal["flush", "arrival", "idle", "uniform"]
Latency = Literal["client", "server", "none"]


@dataclass(frozen=True, kw_only=True)
class Polling:
    """Every `period` the server asks s random clients for their progress (FAVANO, QuAFL).

    A client works from contact to contact, for K steps at most. The options are other readings of
    the paper's clock (docs/readings.md).
    """

    selected: int  # s
    local_steps: int  # K
    waiting_time: float = 4.0  # V
    interaction_time: float = 3.0  # I
    interruption: Interruption = "redraw"  # what happens to the step under way at a contact
    starts_at_zero: bool = False  # first contact at time 0, before any step
    idle_in_interaction: bool = False  # clients do not compute during the interaction time
    strict_ties: bool = False  # a step that ends exactly at the contact is lost
    overrun: bool = False  # the last contact is at or past the horizon
    step_count: StepCount = "durations"  # literal: E itself is geometric

    def __post_init__(self) -> None:
        _check_work(self.selected, self.local_steps)
        _check_time("waiting_time", self.waiting_time)
        _check_time("interaction_time", self.interaction_time)
        require(self.period > 0, "waiting_time", self.waiting_time, "need a positive server step")

    @property
    def period(self) -> float:
        """Length I + V of a server step."""
        return self.waiting_time + self.interaction_time

    def window(self, gap: Floats | Ints) -> Floats:
        """The time that a client has to work between contacts that are `gap` server steps apart."""
        idle = self.interaction_time if self.idle_in_interaction else 0.0
        return np.maximum(gap * self.period - idle, 0.0)


@dataclass(frozen=True, kw_only=True)
class Rounds:
    """Rounds: s random clients start from the new model, the server waits for `wait_for` of them.

    FedAvg waits for all. `selected = n` and `wait_for = Z` is FedBuff in mode `reset`.
    """

    selected: int  # s
    local_steps: int  # K
    interaction_time: float = 3.0  # I
    wait_for: int | None = None  # None: all
    deadline: float | None = None  # the longest that the server waits
    at_deadline: AtDeadline = "drop"  # take: use the steps made by then, if there are any
    round_time: RoundTime = "sum"
    drop_last: bool = False  # leave out a round that ends past the horizon

    def __post_init__(self) -> None:
        _check_work(self.selected, self.local_steps)
        _check_time("interaction_time", self.interaction_time)
        if self.wait_for is not None:
            rule = f"need 1..selected ({self.selected})"
            require(1 <= self.wait_for <= self.selected, "buffer", self.wait_for, rule)
        if self.deadline is not None:
            require(self.deadline > 0, "deadline", self.deadline, "need a positive time")


@dataclass(frozen=True, kw_only=True)
class Buffered:
    """The server updates when `buffer` clients have answered (FedBuff, AsyncSGD, FedAsync).

    `hand_out` says who gets the next job: the contributors once the buffer is flushed (`flush`),
    each contributor at its own arrival (`arrival`), a random idle client (`idle`), or any random
    client, which queues the job if it is busy (`uniform`).
    """

    buffer: int  # Z
    local_steps: int  # K
    hand_out: HandOut
    concurrency: int | None = None  # clients at work at the same time; None: all
    interaction_time: float = 3.0  # I
    latency: Latency = "server"  # who spends I: the server at a flush, or the client at each job
    distinct: bool = False  # a client with a client update in the buffer is not idle
    max_staleness: int | None = None  # client updates of more staleness are dropped
    flush_at_end: bool = False  # use the client updates left in the buffer at the horizon

    def __post_init__(self) -> None:
        require(self.buffer >= 1, "buffer", self.buffer, "need at least 1")
        _check_work(1, self.local_steps)
        _check_time("interaction_time", self.interaction_time)
        if self.concurrency is not None:
            require(self.concurrency >= 1, "concurrency", self.concurrency, "need at least 1")
        if self.max_staleness is not None:
            require(self.max_staleness >= 0, "max_staleness", self.max_staleness, "need at least 0")

    @property
    def in_turn(self) -> bool:
        """Whether a client update is always used, or dropped, before its client begins again."""
        alone = self.distinct or self.buffer == 1
        return self.hand_out == "flush" or (self.hand_out == "idle" and alone)


@dataclass(frozen=True, kw_only=True)
class Windowed:
    """Every `period` the server uses the updates that arrived; their clients restart then."""

    period: float
    local_steps: int  # K

    def __post_init__(self) -> None:
        _check_work(1, self.local_steps)
        require(self.period > 0, "period", self.period, "need a positive time")


@dataclass(frozen=True, kw_only=True)
class Adaptive:
    """Every arrival is an update, after which the server sets the length of the next job.

    All clients are at work; each goes on at once from the new model (AsyncFedED).
    """

    local_steps: int  # K of the first jobs
    most_steps: int  # K never exceeds it
    interaction_time: float = 3.0  # I
    latency: Latency = "client"

    def __post_init__(self) -> None:
        _check_work(1, self.local_steps)
        rule = f"need at least local_steps ({self.local_steps})"
        require(self.most_steps >= self.local_steps, "most_local_steps", self.most_steps, rule)
        _check_time("interaction_time", self.interaction_time)


Policy: TypeAlias = Polling | Rounds | Buffered | Windowed | Adaptive


def check_selected(selected: int, clients: int) -> None:
    """Refuse more clients per server step than there are."""
    require(1 <= selected <= clients, "selected", selected, f"need 1..clients ({clients})")


def _check_work(selected: int, local_steps: int) -> None:
    require(selected >= 1, "selected", selected, "need at least 1")
    require(local_steps >= 1, "local_steps", local_steps, "need at least 1")


def _check_time(name: str, value: float) -> None:
    require(value >= 0, name, value, "need a time >= 0")
