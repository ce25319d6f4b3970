"""Gates: which client updates a server refuses, and why. Simulator and federation share them.

A refusal has a name, is counted for its sender, and costs nobody else anything: the round goes on
with the client updates that are left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable
from enum import StrEnum
from math import isfinite
from typing import cast

from torch import Tensor

from favano.errors import require
from favano.types import Stack, Vector

_KEPT = 256  # norms that a running quantile is of
_ENOUGH = 16  # of them, before anything is refused
LEAST_STEP = 1e-6  # seconds: no step of training is shorter
CLOCK_DRIFT = 1.001  # how much faster than the server's the clock of an honest node may run
LIKELY = 10.0  # times as fast as usual, a client may be
MOST_COUNTED = 16  # per step: a BatchNorm that is used twice in a forward pass counts twice


class Refusal(StrEnum):
    """Why a client update is refused."""

    TOO_LARGE = "too large"
    UNREADABLE = "unreadable"
    UNKNOWN = "unknown job"
    REPLAYED = "replayed"
    STALE = "stale"
    SHAPE = "wrong shape"
    TYPE = "wrong type of numbers"
    NOT_FINITE = "NaN or infinity"
    COUNTERS = "impossible counters"
    STEPS = "impossible steps"
    UNLIKELY = "unlikely steps"
    NORM = "norm beyond the bound"
    DATA = "other data"
    INFINITE = "would make the model infinite"
    METRIC = "metric without a number"


def finite_rows(models: Stack) -> list[bool]:
    """Which models have neither NaN nor infinity.

    If the sum of a model is finite, so is each number in it, and a sum is fast. Very large numbers
    may add up to infinity, so if a sum is not finite, every number is checked.
    """
    if models.sum(dim=1).isfinite().all():
        return [True] * len(models)
    return cast(list[bool], models.isfinite().all(dim=1).tolist())


def wrong_size(size: int, most: int) -> Refusal | None:
    """Refuse a message of more bytes than any honest one has."""
    return Refusal.TOO_LARGE if size > most else None


def wrong_job(
    job: int, *, open_jobs: Container[int], given_up: Container[int], handed_out: int
) -> Refusal | None:
    """Refuse answers to jobs that are not open; jobs are numbered as they are handed out."""
    if job in open_jobs:
        return None
    if not 0 <= job < handed_out:
        return Refusal.UNKNOWN
    return Refusal.STALE if job in given_up else Refusal.REPLAYED


def wrong_model(start: Vector, end: Vector) -> Refusal | None:
    """Refuse a model unlike the one that was handed out, or one with NaN or infinity."""
    if end.shape != start.shape:
        return Refusal.SHAPE
    if end.dtype != start.dtype:
        return Refusal.TYPE
    return None if finite_rows(end[None])[0] else Refusal.NOT_FINITE


def wrong_counters(steps: int, start: Vector, end: Vector) -> Tensor:
    """Which counters no training can have left: not whole, smaller, or too large for the steps.

    The server takes the largest of each that comes, so that a wrong one would stay.
    """
    counted = end.double() - start
    return (end != end.round()) | (counted < 0) | (counted > float(MOST_COUNTED * steps))


def wrong_steps(
    steps: int, most: int, seconds: float, elapsed: float, *, fastest: float = 0.0
) -> Refusal | None:
    """Refuse a number of steps that cannot be.

    Args:
        steps: what the client says it has made.
        most: K.
        seconds: how long it says it has trained.
        elapsed: seconds since it was called.
        fastest: seconds that a step takes at least.
    """
    counted, longest = 0 <= steps <= most, CLOCK_DRIFT * elapsed
    timed = isfinite(seconds) and steps * LEAST_STEP <= seconds <= longest
    return None if counted and timed and steps * fastest <= longest else Refusal.STEPS


def unlikely_steps(steps: int, elapsed: float, usual: float | None) -> Refusal | None:
    """Refuse more steps than ten times those that a client usually makes in this time.

    Fewer are no reason: a machine may be busy.

    Args:
        steps: what the client says it has made.
        elapsed: seconds since it was called.
        usual: steps per second, as it has said before; None: that is not known.
    """
    likely = usual is None or steps <= LIKELY * usual * elapsed
    return None if likely else Refusal.UNLIKELY


def wrong_change(steps: int, start: Vector, end: Vector) -> Refusal | None:
    """Refuse another model than the one that was handed out from a client that made no step."""
    return Refusal.STEPS if steps == 0 and bool((start != end).any()) else None


class NormGate:
    """Refuses contributions whose norm is beyond a bound: fixed, or following the others.

    The latter is `factor` times a quantile of the norms of the last ones that were accepted. The
    norm is that of a client's progress times its weight in the mean by which the server moves.
    """

    def __init__(
        self, most: float | None = None, *, quantile: float | None = None, factor: float = 3.0
    ) -> None:
        require(most is None or most > 0, "norm", most, "need a positive norm")
        require(
            quantile is None or 0 < quantile <= 1, "quantile", quantile, "need a share in (0, 1]"
        )
        require(factor >= 1, "factor", factor, "need at least 1")
        self._most, self._quantile, self._factor = most, quantile, factor
        self.seen: deque[float] = deque(maxlen=_KEPT)  # norms that were accepted

    @property
    def bound(self) -> float | None:
        """The largest norm that is accepted now; None: any."""
        bounds = [] if self._most is None else [self._most]
        if self._quantile is not None and len(self.seen) >= _ENOUGH:
            place = max(0, round(self._quantile * len(self.seen)) - 1)
            bounds.append(self._factor * sorted(self.seen)[place])
        return min(bounds, default=None)

    @property
    def is_open(self) -> bool:
        """Whether it refuses nothing, ever."""
        return self._most is None and self._quantile is None

    def judge(self, norm: float) -> Refusal | None:
        """Refuse a contribution, or count it among those that were accepted."""
        bound = self.bound
        if bound is not None and not norm <= bound:
            return Refusal.NORM
        if norm > 0:  # clients without a step say nothing about norms
            self.seen.append(norm)
        return None

    def restore(self, seen: Iterable[float]) -> None:
        """Take over the norms that another gate has accepted."""
        self.seen = deque(seen, maxlen=_KEPT)
