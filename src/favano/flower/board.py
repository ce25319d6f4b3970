"""The board: what a server shows of its federation while it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import asdict, replace
from textwrap import shorten

import numpy as np

from favano.errors import BadInput
from favano.flower.ledger import Ledger
from favano.flower.rounds import Round, node_records
from favano.methods import AnyMethod
from favano.planning.client_weights import weigh_clients
from favano.schedule import Schedule
from favano.types import Floats

_PAUSE = 2.0  # seconds between two looks


class Board:
    """The newest status; the server writes it, and anybody may read it."""

    def __init__(
        self,
        method: AnyMethod,
        rounds: int,
        executor: Executor,
        metrics: Callable[[], Mapping[str, float]],  # of the last evaluation
    ) -> None:
        self._method, self._rounds, self._executor = method, rounds, executor
        self._metrics = metrics
        self._weights: Future[Floats | None] | None = None
        self._known: Floats | None = None
        self._next = 0.0
        self.latest: dict[str, object] = {}

    def show(self, ledger: Ledger, rounds: Sequence[Round], now: float) -> None:
        """Write the status, if it is time."""
        if now < self._next:
            return
        self._next = now + _PAUSE
        self._weigh(ledger)
        at_work = {one.client: one.until for one in ledger.open.values()}
        last = rounds[-1] if rounds else None
        clients = [
            {
                **asdict(one),
                "now": _doing(one.client, ledger, at_work, now),
                "weight": None if self._known is None else float(self._known[one.client]),
            }
            for one in node_records(ledger)
        ]
        self.latest = {
            "method": self._method.title,
            "state": _state(ledger),
            "round": len(rounds),
            "rounds": self._rounds,
            "seconds": now,
            "online": len(ledger.present),
            "places": ledger.clients,
            "training": len(at_work),
            "steps": sum(sum(one.steps) for one in rounds),
            "refusals": sum(sum(of.values()) for of in ledger.refused.values()),
            "failures": ledger.failures.total(),
            "longest_wait": max((one.wait for one in rounds), default=0.0),
            "last_wait": 0.0 if last is None else last.wait,
            "bytes_up": 0 if last is None else last.bytes_up,
            "bytes_down": 0 if last is None else last.bytes_down,
            "metrics": dict(self._metrics()),
            "clients": clients,
        }

    def _weigh(self, ledger: Ledger) -> None:
        """Weights of clients so far, computed by somebody else."""
        if self._weights is not None and self._weights.done():
            self._known, self._weights = self._weights.result(), None
        if self._weights is None and ledger.course.updates:
            chances = None
            if ledger.estimates is not None:
                chances = ledger.estimates.expected(np.arange(ledger.clients)).positive
            schedule = ledger.course.schedule
            self._weights = self._executor.submit(shares, self._method, schedule, chances)


def shares(method: AnyMethod, schedule: Schedule, chances: Floats | None) -> Floats | None:
    """(n,) each client's share in all that moved the model so far; None if it is not linear.

    `chances` are the estimates of P(E > 0), for methods that divide by measured weights.
    """
    if not method.linear:
        return None
    if getattr(method, "weights", None) == "measured" and chances is not None:
        by_chance = getattr(method, "reweight", "") == "stochastic"
        given = chances if by_chance else np.ones(len(chances))
        known = replace(method, weights="given", given_weights=tuple(given.tolist()))  # type: ignore[call-arg]
        method = known.bind(method.world)
    try:
        return weigh_clients(method, schedule, method.world.fleet, most=schedule.clients).each
    except BadInput:
        return None


def _state(ledger: Ledger) -> str:
    online = f"{len(ledger.present)} of {ledger.clients} clients are online"
    failing = sorted(ledger.failing.items())
    return "; ".join(
        [online, *(f"client {who} fails: {shorten(why, 120)}" for who, why in failing)]
    )


def _doing(client: int, ledger: Ledger, at_work: dict[int, float], now: float) -> str:
    if client in ledger.failing:
        return "has failed"
    if client not in ledger.present:
        return "away"
    if client not in at_work:
        return "has answered"
    until = at_work[client]
    return "trains" if until == np.inf else f"trains, due in {max(0.0, until - now):.0f} s"
