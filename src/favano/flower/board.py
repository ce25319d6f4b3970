"""The board: what a server shows of its federation while it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

import numpy as np

from favano.errors import one_line
from favano.flower.ledger import Ledger
from favano.flower.rounds import Round, node_records
from favano.types import Floats

_PAUSE = 2.0  # seconds between two looks


class Board:
    """The newest status; the server writes it, and anybody may read it."""

    def __init__(
        self,
        method: str,
        rounds: int,
        influence: float | None,  # bound of each client's
        metrics: Callable[[], Mapping[str, float]],  # of the last evaluation
    ) -> None:
        self._method, self._rounds, self._metrics = method, rounds, metrics
        self._influence = influence
        self._next = 0.0
        self.latest: dict[str, object] = {}

    def show(
        self,
        ledger: Ledger,
        rounds: Sequence[Round],
        shares: Floats,  # of clients, in all that moved the model
        waiting: int,  # nodes without a place
        now: float,
    ) -> None:
        """Write the status, if it is time."""
        if now < self._next:
            return
        self._next = now + _PAUSE
        at_work = {job.client: job.until for job in ledger.open.values()}
        last = rounds[-1] if rounds else None
        clients = [
            {
                **asdict(node),
                "now": _doing(node.client, ledger, at_work, now),
                "weight": float(shares[node.client]),
            }
            for node in node_records(ledger)
        ]
        self.latest = {
            "method": self._method,
            "state": _state(ledger, waiting, now),
            "round": len(rounds),
            "rounds": self._rounds,
            "seconds": now,
            "online": len(ledger.present),
            "places": ledger.clients,
            "training": len(at_work),
            "steps": sum(sum(past.steps) for past in rounds),
            "refusals": sum(sum(of.values()) for of in ledger.refused.values()),
            "failures": ledger.failures.total(),
            "longest_wait": max((past.wait for past in rounds), default=0.0),
            "last_wait": 0.0 if last is None else last.wait,
            "bytes_up": 0 if last is None else last.bytes_up,
            "bytes_down": 0 if last is None else last.bytes_down,
            "influence": self._influence,
            "metrics": dict(self._metrics()),
            "clients": clients,
        }


def _state(ledger: Ledger, waiting: int, now: float) -> str:
    words = [f"{len(ledger.present)} of {ledger.clients} clients are online"]
    if waiting:
        words.append(f"{waiting} node{'s wait' if waiting > 1 else ' waits'} for a place")
    for who, until in sorted(ledger.paused.items()):
        words.append(f"client {who} is refused, and called again in {max(0.0, until - now):.0f} s")
    failing = sorted(ledger.failing.items())
    return "; ".join(
        [*words, *(f"client {who} fails: {one_line(why, 120)}" for who, why in failing)]
    )


def _doing(client: int, ledger: Ledger, at_work: dict[int, float], now: float) -> str:
    if client in ledger.failing:
        return "has failed"
    if client in ledger.paused:
        return f"refused, called again in {max(0.0, ledger.paused[client] - now):.0f} s"
    if client not in ledger.present:
        return "away"
    if client not in at_work:
        return "has answered"
    until = at_work[client]
    return "trains" if until == np.inf else f"trains, due in {max(0.0, until - now):.0f} s"
