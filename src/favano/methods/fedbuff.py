"""FedBuff: buffered asynchronous aggregation (Nguyen, Malik, Zhan, Yousefpour, ... 2022)."""

from __future__ import annotations

from typing import Literal

import numpy as np

from favano.errors import BadInput, require
from favano.methods.arrays import column
from favano.methods.method import ClientUpdates, Method, ModelState
from favano.methods.staleness import SQUARE_ROOT, StalenessRule, parse_staleness
from favano.options import Count, PositiveTime, Rate, Whole, option
from favano.policies import Buffered, CheckIns, HandOut, Rounds
from favano.schedule import Schedule
from favano.types import Floats

BufferMode = Literal["concurrency", "block", "code", "reset", "check-ins"]


class FedBuff(Method[ModelState]):
    """The server collects Z client updates of K steps each, then moves by their weighted mean.

        w <- w - eta_g (1/Z) sum_{j <= Z} sigma(tau_j) (w_start_j - w_end_j)

    Papers and code run the buffer in five ways, `buffer_mode`; the first is that of the FedBuff
    paper. In `reset` the first Z to finish count; with `check-ins` clients come by themselves, at a
    constant or random rate, as in the simulations of FedBuff's authors and in PAPAYA. With
    `sample_weights` sigma is times n p_i, with p_i the client's share of all samples.

    Limitations: fast clients fill the buffer, so they train the model; with data that are not
    IID it forgets what slow clients hold. The server step must suit the mode.
    """

    plot_style, linear, any_policy = 3, True, True
    policy_options = (
        "buffer", "buffer_mode", "concurrency", "check_in_rate", "check_ins", "distinct",
        "max_staleness", "flush_at_end",
    )  # fmt: skip

    buffer: Count | None = option(
        None, "client updates per server step", otherwise="by data set, else 10", symbol="Z"
    )
    buffer_mode: BufferMode = option(
        "concurrency",
        "after an update, a random idle client starts (concurrency), the client waits for the "
        "server step (block), it continues at once (code), all restart at each step (reset), or "
        "clients come by themselves (check-ins)",
        source="its paper",
    )
    server_learning_rate: Rate = option(1.0, "server learning rate", symbol="eta_g")
    staleness: StalenessRule = option(
        SQUARE_ROOT,
        "weight of a stale update: constant, polynomial:A or hinge:A:B",
        symbol="sigma",
        source="its paper",
    )
    concurrency: Count | None = option(
        None, "clients at work at a time", otherwise="selected; check-ins: any"
    )
    check_in_rate: PositiveTime | None = option(None, "check-ins: clients per unit of time")
    check_ins: CheckIns = option(
        "constant", "check-ins: at equal distances (constant), or a Poisson process (poisson)"
    )
    distinct: bool = option(False, "a buffer holds a client once at most")
    max_staleness: Whole | None = option(None, "drop client updates that are staler than this")
    flush_at_end: bool = option(False, "apply the last partial buffer")
    rate_scale: Literal["none", "buffer"] = option(
        "none", "buffer: learning rate times Z/n, as in QuAFL's simulator"
    )
    sample_weights: bool = option(False, "weight clients by their samples")

    def check(self) -> None:
        mode = self.buffer_mode
        rule = f"requires buffer_mode=concurrency; in mode {mode} all clients are at work"
        kept = mode in ("concurrency", "check-ins") or self.concurrency is None
        require(kept, "concurrency", self.concurrency, rule)
        for name in ("distinct", "max_staleness", "flush_at_end") if mode == "reset" else ():
            rule = "has no effect with buffer_mode=reset; remove it"
            require(name not in self.given, name, getattr(self, name), rule)
        comes, rate = mode == "check-ins", self.check_in_rate
        rule = "requires buffer_mode=check-ins" if rate else "is needed with buffer_mode=check-ins"
        require(comes == (rate is not None), "check_in_rate", rate, rule)
        rule = "requires buffer_mode=check-ins"
        require(comes or "check_ins" not in self.given, "check_ins", self.check_ins, rule)

    def policy(self) -> Buffered | Rounds:
        if self.buffer_mode == "reset":
            return self.context.rounds(selected=self.context.clients, wait_for=self._size)
        hand_out: dict[str, HandOut]
        hand_out = {
            "concurrency": "idle", "block": "flush", "code": "arrival", "check-ins": "check-in",
        }  # fmt: skip
        comes = self.buffer_mode == "check-ins"
        at_work = self.concurrency if comes else self.concurrency or self.context.selected
        return self.context.buffered(
            buffer=self._size,
            hand_out=hand_out[self.buffer_mode],
            concurrency=at_work if comes or self.buffer_mode == "concurrency" else None,
            check_in_rate=self.check_in_rate,
            check_ins=self.check_ins,
            distinct=self.distinct,
            max_staleness=self.max_staleness,
            flush_at_end=self.flush_at_end,
        )

    def aggregate(self, state: ModelState, updates: ClientUpdates) -> ModelState:
        weight = parse_staleness(self.staleness)(updates.staleness)
        if self.sample_weights:
            weight = weight * self.context.relative_sizes[updates.client]
        delta = (column(weight, updates.end) * (updates.start - updates.end)).mean(0)
        return ModelState(state.model - self.server_learning_rate * delta)

    def rates(self, schedule: Schedule) -> Floats:
        if (scaled := self.rate_scale == "buffer") and self.context.policy is not None:
            rule = f"need none with policy {type(self.run_policy).__name__}, which has no buffer"
            raise BadInput("rate_scale", self.rate_scale, rule)
        scale = self._size / self.context.clients if scaled else 1.0
        return np.full(len(schedule.client), scale)

    @property
    def _size(self) -> int:
        return self.buffer or 10
