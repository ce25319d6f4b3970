"""The server's clock: when it calls, how many clients, and how long it waits."""

from __future__ import annotations

from favano.errors import require
from favano.options import Count, Options, PositiveTime, Time, option
from favano.policies import AtDeadline, Interruption, RoundTime, StepCount, Uniform
from favano.policies.selection_names import GivenSelection


class ServerClock(Options):
    """Times of the server. Each policy reads those that are about it."""

    selected: Count | None = option(
        None, "clients contacted per server step", otherwise="by data set", symbol="s"
    )
    selection: GivenSelection = option(
        Uniform(),
        "which clients: uniform, weighted:3,1, samples, least-recent, power-of-choice:30, oort or "
        "file.py:Name",
    )
    waiting_time: Time = option(4.0, "time between two communications", symbol="V")
    interaction_time: Time = option(3.0, "time of a communication", symbol="I")
    interruption: Interruption = option(
        "redraw",
        "polling (favano, quafl): a step cut off by a contact is drawn anew (redraw), goes on "
        "(resume), or repeats (keep)",
    )
    starts_at_zero: bool = option(False, "polling methods: first contact at time 0")
    idle_in_interaction: bool = option(False, "polling methods: clients idle during communications")
    strict_ties: bool = option(False, "polling methods: a step that ends at a contact is lost")
    overrun: bool = option(False, "polling methods: also the first contact past the horizon")
    step_count: StepCount = option(
        "durations",
        "polling: steps take time (durations), or their number is geometric from 1 (literal) or 0 "
        "(literal-zero)",
    )
    round_time: RoundTime = option("sum", "rounds: how their length is drawn")
    deadline: PositiveTime | None = option(None, "rounds: longest wait for clients")
    at_deadline: AtDeadline = option("drop", "rounds: drop late clients, or take their steps")
    drop_last: bool = option(False, "rounds: leave out one that ends past the horizon")

    def check(self) -> None:
        late = self.deadline is not None or self.at_deadline == "drop"
        require(late, "at_deadline", self.at_deadline, "requires a deadline")
        counted = self.step_count != "durations"
        for name in ("interruption", "idle_in_interaction", "strict_ties") if counted else ():
            rule = f"has no effect with step_count={self.step_count}, where steps have no duration"
            require(name not in self.given, name, getattr(self, name), f"{rule}; remove it")
