"""What clients meet besides their own speed: absence, links that take time, faults."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from typing import Literal, NamedTuple

from favano.timing.availability import Presence
from favano.types import Floats

# A job whose client goes away is lost; or it rests until the client is back; or it goes on, and its
# update is sent when the client is back.
WhenAway = Literal["lost", "paused", "later"]

# leave: a client is gone with its job; start: it is there again, or comes late
# hang, continue: it cannot be reached meanwhile, and its job stands still
# crash: its job is lost, and it is asked again
# slow: its steps take `value` times as long, from its next job on
# lose, late, duplicate: what becomes of its next update; late ones arrive `value` later
# poison: its deltas are multiplied by `value` from its next update on; 1: no longer
# timeout: its update is no longer waited for; not of a script
FaultKind = Literal[
    "leave", "start", "crash", "hang", "continue", "slow", "lose", "late", "duplicate", "poison",
    "timeout",
]  # fmt: skip


class Fault(NamedTuple):
    """What happens to some clients at a time, or once the server has made so many steps.

    Faults happen in their order: one that is due waits for those before it.
    """

    clients: tuple[int, ...]  # their streams
    what: FaultKind
    after: float = 0.0  # so long after the fault before
    server_steps: int = 0  # and not before so many server steps
    value: float = 1.0


class JobCost(NamedTuple):
    """What a job costs, whoever does it: by the network, the batch and the codec."""

    flops: float  # floating-point operations of a local step
    bits_up: float  # of a client update
    bits_down: float  # of a model that a client is sent


class Energy(NamedTuple):
    """Joules that each client needs, (n,) each."""

    per_step: Floats
    per_byte: Floats  # that it sends or receives


@dataclass(frozen=True)
class Links:
    """How long messages take, in simulated time: (n,) each, to a client and back.

    The server's own link is shared: messages pass it one after the other.
    """

    down: Floats
    up: Floats
    server_down: float = 0.0  # that each message to a client holds the server's link
    server_up: float = 0.0  # that each client update holds it


@dataclass(frozen=True)
class Conditions:
    """What the clients of a run meet up to its horizon. The first ones: nothing."""

    presence: Presence | None = None  # None: all clients are always there
    when_away: WhenAway = "lost"
    links: Links | None = None  # None: messages take no time
    timeout: float = inf  # after which the server no longer waits for a client update
    faults: tuple[Fault, ...] = field(default=())

    @property
    def always_there(self) -> bool:
        """Whether nothing of this ever happens, so that jobs take as long as their steps."""
        quiet = self.presence is None and self.links is None
        return quiet and not self.faults and self.timeout == inf

    @property
    def only_absence(self) -> bool:
        """Whether clients are away at times, and nothing else ever happens."""
        return self.presence is not None and replace(self, presence=None).always_there


IDEAL = Conditions()
