"""When two times are equal: the one rule of planner and theory.

Times are sums of durations, and such sums are rounded: 3 times 0.3 is a little less than 0.9. Times
that differ by less than a part in 10^9 are one time.
"""

from __future__ import annotations

import numpy as np

from favano.types import Floats, Mask

_EQUAL = 1e-9
_DIGITS = 12  # of times that are put in order


def latest(time: Floats | float) -> Floats:
    """The latest time that is equal to this one."""
    return np.asarray(np.multiply(time, 1 + _EQUAL))


def at_or_before(time: Floats | float, limit: Floats | float) -> Mask:
    """Whether a time is not after a limit, broadcast.

    >>> bool(at_or_before(0.1 + 0.2, 0.3)), bool(at_or_before(0.31, 0.3))
    (True, False)
    """
    return np.asarray(time <= latest(limit))


def not_after(time: float, limit: float) -> bool:
    """The same for two numbers, without arrays."""
    return time <= limit * (1 + _EQUAL)


def before(time: Floats | float, limit: Floats | float) -> Mask:
    """Whether a time is really before a limit, broadcast.

    >>> bool(before(3 * 0.3, 0.9)), bool(before(0.89, 0.9))
    (False, True)
    """
    return np.asarray(time < np.multiply(limit, 1 - _EQUAL))


def whole_periods(time: Floats | float, period: float) -> Floats:
    """How many periods end at or before a time.

    >>> float(whole_periods(0.9, 0.3)), float(whole_periods(0.89, 0.3))
    (3.0, 2.0)
    """
    return np.asarray(np.floor(np.divide(time, period) * (1 + _EQUAL)))


def periods_until(time: Floats | float, period: float) -> Floats:
    """How many periods it takes until a time is reached.

    >>> float(periods_until(0.1 + 0.2, 0.1)), float(periods_until(0.31, 0.1))
    (3.0, 4.0)
    """
    return np.asarray(np.ceil(np.divide(time, period) * (1 - _EQUAL)))


def not_past(time: Floats, limit: float) -> Floats:
    """The times, with those that are equal to the limit set to it."""
    return np.where(at_or_before(time, limit), np.minimum(time, limit), time)


def in_order(time: float) -> float:
    """The time as it is put in order with others: equal ones become the same number.

    >>> in_order(0.1 + 0.2) == in_order(0.3), in_order(1.5)
    (True, 1.5)
    """
    return float(f"{time:.{_DIGITS - 1}e}")
