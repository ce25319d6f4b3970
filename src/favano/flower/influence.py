"""Influence: how far one client may move the server model, whatever it says.

What counts is the length of a change as it is applied, after weights, staleness and robust means,
divided by the step size of its job, which the server sets. Per client there is one value, so that
nobody outvotes the others by answering often, and a client's own is not in its own bound:

    one change is at most      F times the median, over the others, of their usual length
    all of a client's changes  F times the median, over the others, of what they move the model
    are at most                per update, for each update so far

Thus contacts without a step may be made up for, but not hoarded. Where clients go on at their own
speed, so that fast ones move the model more often, it is per contact instead of per update. What is
longer is shortened.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from math import inf, isnan
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from favano.aggregation import PerUpdate
from favano.errors import require
from favano.policies import Buffered, Policy
from favano.types import Floats, Ints

UNUSED = 10  # client updates in a row that were used in no part: nothing is learnt
_KEPT = 16  # changes of each client that count
_LONGEST = 1e300  # change that is counted: sums of them are finite


class Influence:
    """What each client has done to the model, and what it may do.

    Args:
        policy: when clients are asked.
        clients: number of places n.
        factor: F; None: changes may be of any length.
    """

    def __init__(self, policy: Policy, clients: int, factor: float | None) -> None:
        rule = "need at least 1, times the median of the other clients"
        require(factor is None or factor >= 1, "influence", factor, rule)
        at_own_speed = isinstance(policy, Buffered) and policy.hand_out in ("arrival", "flush")
        self._parameters, self._buffers = (_Bound(factor, at_own_speed) for _ in range(2))
        self._moved: Floats = np.zeros(clients)
        self.unused = 0  # client updates in a row, up to now, of which the bound left nothing
        self.most_unused = 0  # so many in a row at most

    def scales(
        self,
        update: int,
        clients: Ints,
        lengths: PerUpdate,
        rates: Floats,
        joined: Collection[int],
    ) -> PerUpdate:
        """What the changes of one update are to be multiplied by.

        Args:
            update: its number.
            clients: (k,) whose changes they are.
            lengths: how far they would move the model.
            rates: (k,) step sizes of their jobs.
            joined: all clients that there are.
        """
        per_rate = lengths.parameters / np.where(rates > 0, rates, inf)
        scales = self._parameters.scales(update, clients, per_rate, joined)
        for scale in scales[lengths.parameters != 0]:
            self.unused = 0 if scale else self.unused + 1
            self.most_unused = max(self.unused, self.most_unused)
        buffers = self._buffers.scales(update, clients, lengths.buffers, joined)
        return PerUpdate(scales, buffers)

    def count(self, clients: Ints, lengths: Floats) -> None:
        """These clients have moved the model so far."""
        np.add.at(self._moved, clients, np.minimum(lengths, _LONGEST))

    @property
    def shares(self) -> Floats:
        """(n,) each client's share in all that has moved the model."""
        shares: Floats = self._moved / max(self._moved.sum(), np.finfo(np.float64).tiny)
        return shares

    def document(self) -> dict[str, Any]:
        """As plain data."""
        bounds = [self._parameters.document(), self._buffers.document()]
        unused = [self.unused, self.most_unused]
        return {"bounds": bounds, "moved": self._moved.tolist(), "unused": unused}

    def restore(self, document: Mapping[str, Any]) -> None:
        """Take over what another one knew; older checkpoints have nothing."""
        if document:
            self._parameters.restore(*document["bounds"][0])
            self._buffers.restore(*document["bounds"][1])
            self._moved = np.array(document["moved"])
            self.unused, self.most_unused = document.get("unused", (0, 0))


class _Change(NamedTuple):
    at: int  # number of the update, or of the contact
    length: float


class _Habit(NamedTuple):
    """What a client's last changes come to."""

    usual: float  # median length of those with a step; 0 if there are none
    pace: float  # how far it moves the model per update or contact


class _Bound:
    """The last changes of each client, and how long the next ones may be."""

    def __init__(self, factor: float | None, by_contact: bool) -> None:
        self._factor, self._by_contact = factor, by_contact
        self._contacts = Counter[int]()  # by client
        self._changes: dict[int, deque[_Change]] = {}
        self._habits: dict[int, _Habit] = {}
        self._left: dict[int, _Change] = {}  # of what each client was allowed, and since when

    def scales(
        self, update: int, clients: Ints, lengths: Floats, joined: Collection[int]
    ) -> Floats:
        changes = []
        for client, length in zip(clients.tolist(), lengths.tolist(), strict=True):
            self._contacts[client] += 1
            at = self._contacts[client] if self._by_contact else update
            change = _Change(at, inf if isnan(length) else length)
            kept = self._changes.setdefault(client, deque(maxlen=_KEPT))
            kept.append(change)
            self._habits[client] = _habit(kept)
            changes.append((client, change))
        return np.array([self._scale(client, change, joined) for client, change in changes])

    def _scale(self, client: int, change: _Change, joined: Collection[int]) -> float:
        """Alone, a client may do anything; with nobody yet to compare it with, it has to wait."""
        if self._factor is None or not set(joined) - {client}:
            return 1.0
        others = [habit for who, habit in self._habits.items() if who != client and habit.usual]
        if not others:
            return float(change.length == 0)
        since, left = self._left.get(client, _Change(change.at - 1, 0.0))
        pace = self._factor * median(habit.pace for habit in others)
        longest = self._factor * median(habit.usual for habit in others)
        left = min(left + pace * (change.at - since), max(pace, longest))
        most = min(left, longest)
        self._left[client] = _Change(change.at, max(0.0, left - change.length))
        return 1.0 if change.length <= most else most / change.length

    def document(self) -> list[Any]:
        pairs = self._contacts, {who: list(of) for who, of in self._changes.items()}, self._left
        return [list(part.items()) for part in pairs]

    def restore(self, contacts: Iterable[Any], changes: Iterable[Any], left: Any) -> None:
        self._contacts = Counter(dict(contacts))
        self._changes = {
            who: deque((_Change(*change) for change in of), maxlen=_KEPT) for who, of in changes
        }
        self._habits = {who: _habit(of) for who, of in self._changes.items()}
        self._left = {who: _Change(*change) for who, change in left}


def _habit(changes: deque[_Change]) -> _Habit:
    usual = median([change.length for change in changes if change.length] or [0.0])
    span = changes[-1].at - changes[0].at  # the first change ends what was before it
    counted = islice(changes, int(span > 0), None)
    return _Habit(usual, sum(change.length for change in counted) / max(span, 1))
