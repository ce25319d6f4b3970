"""What a method may know of a run before it begins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from favano.errors import BadInput, require
from favano.methods.accumulation import PLAIN_SGD, Accumulation
from favano.methods.clock import ServerClock
from favano.options import options_of, unknown_attribute
from favano.policies import (
    Buffered,
    CheckIns,
    HandOut,
    Latency,
    Policy,
    Polling,
    Rounds,
    Selection,
    StepsPerJob,
    Uniform,
    Weighted,
)
from favano.timing import ClientSpeeds, Exponential, client_speeds
from favano.types import Floats, Ints

SELECTED, K = "selected", "local_steps"


def shared_options(policy: type[Policy]) -> list[str]:
    """The options of a policy that are keys of any run: those of the clock, and K."""
    return [key for key in options_of(policy) if key in options_of(ServerClock) or key == K]


@dataclass(frozen=True)
class Context:
    """Clients and their speeds, the server's clock, K, and how many samples each client has."""

    fleet: ClientSpeeds
    local_steps: StepsPerJob  # K of all clients, or of each
    clock: ServerClock = field(default_factory=ServerClock)
    count_samples: Callable[[], Floats] | None = None  # asked where a method weighs by samples
    measured: bool = False  # whether the server measures clients' steps, as in a federation
    accumulation: Accumulation = PLAIN_SGD  # how the gradients of a job add up
    policy: Policy | None = None  # that the run names; None: the method has its own

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> None:
            """Say what there is."""
            raise unknown_attribute("self.context", Context, name)

    @property
    def clients(self) -> int:
        """Number of clients n."""
        return self.fleet.clients

    @property
    def selected(self) -> int:
        """Clients that the server contacts at a time, s."""
        selected, policy = self.clock.selected, self.policy
        if selected is None or (policy is not None and SELECTED not in options_of(type(policy))):
            rule = f"has no option {SELECTED}, the clients per server step that is needed here"
            raise BadInput("policy", type(policy).__name__, rule)
        return selected

    @property
    def run_policy(self) -> Policy:
        """The policy that the run names; options that are keys of the run have its values."""
        assert self.policy is not None
        mine: dict[str, object] = {K: self.local_steps}
        if "selection" in (keys := shared_options(type(self.policy))):
            mine["selection"] = self.selection
        values = {key: mine.get(key, getattr(self.clock, key, None)) for key in keys}
        return replace(self.policy, **values)  # type: ignore[arg-type]

    @cached_property
    def samples(self) -> Floats:
        """Training samples of each client, (n,)."""
        if self.count_samples is None:
            key = "selection" if self.clock.selection.uses_samples else "sample_weights"
            value = getattr(self.clock, key, True)
            raise BadInput(key, value, "needs the data, to know how many samples each client has")
        return self.count_samples()

    @property
    def longest_job(self) -> int:
        """The largest K of a client."""
        return self.local_steps if isinstance(self.local_steps, int) else max(self.local_steps)

    def sizes(self, by_samples: bool) -> Floats:
        """What clients are weighed by, (n,): one each, or their samples."""
        return self.samples if by_samples else self._alike

    def shares(self, by_samples: bool) -> Floats:
        """The importance p_i of each client, of sum 1: equal, or by samples."""
        if by_samples not in self._shares:  # methods ask in every update
            size = self.sizes(by_samples)
            self._shares[by_samples] = size / size.sum()
        return self._shares[by_samples]

    @cached_property
    def relative_sizes(self) -> Floats:
        """Samples of each client over their mean, n p_i, (n,).

        With this weight a client update counts by its samples, and all of them on average as one.
        """
        relative: Floats = self.samples / self.samples.mean()
        return relative

    @cached_property
    def _alike(self) -> Floats:
        return np.ones(self.clients)

    @cached_property
    def _shares(self) -> dict[bool, Floats]:
        return {}

    @cached_property
    def selection(self) -> Selection:
        """The rule by which policies select clients, with what it has to know of each client."""
        rule, streams = self.clock.selection, self.fleet.streams
        if rule.uses_samples:
            rule = replace(rule, samples=_by_stream(self.samples, streams))
        if isinstance(rule, Weighted):
            weights = per_client("selection", rule.weights, self.fleet)
            rule = replace(rule, weights=_by_stream(weights, streams))
        return rule

    def polling(self) -> Polling:
        """Ask s clients for what they have, whenever the clock says so."""
        clock = self.clock
        return Polling(
            selected=self.selected,
            selection=self.selection,
            local_steps=self.local_steps,
            waiting_time=clock.waiting_time,
            interaction_time=clock.interaction_time,
            interruption=clock.interruption,
            starts_at_zero=clock.starts_at_zero,
            idle_in_interaction=clock.idle_in_interaction,
            strict_ties=clock.strict_ties,
            overrun=clock.overrun,
            step_count=clock.step_count,
        )

    def rounds(self, *, selected: int | None = None, wait_for: int | None = None) -> Rounds:
        """Rounds of s clients; the server waits for all of them, or for the first few."""
        clock = self.clock
        return Rounds(
            selected=self.selected if selected is None else selected,
            selection=self.selection if selected is None else Uniform(),
            local_steps=self.local_steps,
            interaction_time=clock.interaction_time,
            wait_for=wait_for,
            deadline=clock.deadline,
            at_deadline=clock.at_deadline,
            round_time=clock.round_time,
            drop_last=clock.drop_last,
        )

    def buffered(
        self,
        *,
        buffer: int = 1,
        hand_out: HandOut = "flush",
        concurrency: int | None = None,
        local_steps: StepsPerJob | None = None,
        latency: Latency = "server",
        distinct: bool = False,
        max_staleness: int | None = None,
        flush_at_end: bool = False,
        check_in_rate: float | None = None,
        check_ins: CheckIns = "constant",
    ) -> Buffered:
        """Make a server step when `buffer` client updates are here."""
        return Buffered(
            buffer=buffer,
            local_steps=self.local_steps if local_steps is None else local_steps,
            hand_out=hand_out,
            selection=self.selection if hand_out in ("idle", "check-in") else Uniform(),
            concurrency=concurrency,
            interaction_time=self.clock.interaction_time,
            latency=latency,
            distinct=distinct,
            max_staleness=max_staleness,
            flush_at_end=flush_at_end,
            check_in_rate=check_in_rate,
            check_ins=check_ins,
        )


def per_client(name: str, given: Sequence[float], fleet: ClientSpeeds) -> Floats:
    """Numbers of all clients, (n,), from one for all, by speed class (fast first) or by client."""
    group = {1: np.zeros(fleet.clients, int), int(fleet.groups.max()) + 1: fleet.groups}
    group[fleet.clients] = np.arange(fleet.clients)
    sizes = ", ".join(str(size) for size in sorted(group))
    rule = f"need {sizes} numbers, found {len(given)}"
    require(len(given) in group, name, list(given), rule)
    each: Floats = np.array(given, dtype=np.float64)[group[len(given)]]
    return each


def _by_stream(values: Floats, streams: Ints) -> tuple[float, ...]:
    """Numbers of clients by their streams, by which policies know them."""
    ordered = np.zeros(int(streams.max()) + 1)
    ordered[streams] = values
    return tuple(ordered.tolist())


def federation(
    clients: int,
    *,
    local_steps: StepsPerJob,
    selected: int,
    selection: Selection | None = None,
    tick: float | None = None,
    deadline: float | None = None,
    step_seconds: float = 1.0,
    samples: Sequence[int] | None = None,
    accumulation: Accumulation = PLAIN_SGD,
    policy: Policy | None = None,
) -> Context:
    """What is known of a federation before it begins: speeds are measured later.

    Args:
        clients: places n.
        local_steps: K of all clients, or of each.
        selected: clients per tick or round, s.
        selection: which clients; by default random ones.
        tick: seconds between two ticks.
        deadline: seconds that a round lasts at most.
        step_seconds: a guess of the mean duration of a step.
        samples: of each client, if known.
        accumulation: how the gradients of a job add up; by default as in plain SGD.
        policy: that the run names; by default the method's own.
    """
    clock = ServerClock(selected=selected, selection=selection or Uniform(), interaction_time=0.0)
    if deadline is not None:  # clients stop by then, and what they have is used if it comes in time
        clock = replace(clock, deadline=deadline, at_deadline="take")
    if tick is not None:
        clock = replace(clock, waiting_time=tick)
    fleet = client_speeds(np.full(clients, step_seconds), Exponential())
    count = None
    if samples is not None:
        rule = f"need one number per client ({clients})"
        require(len(samples) == clients, "samples", len(samples), rule)
        sizes = np.array(samples, dtype=np.float64)

        def count() -> Floats:
            return sizes

    return Context(fleet, local_steps, clock, count, True, accumulation, policy)
