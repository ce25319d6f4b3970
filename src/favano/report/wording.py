"""Numbers and lists in words, the same on the page and on the screen."""

from __future__ import annotations

import math
from collections.abc import Sequence

DASH = "–"
MINUS = "−"


def fixed(value: float, digits: int) -> str:
    """A number with a given number of decimals and a true minus; NaN and infinity in words.

    >>> fixed(-0.314, 1), fixed(-0.01, 1), fixed(float("nan"), 1)
    ('−0.3', '0.0', 'not finite')
    """
    if not math.isfinite(value):
        return "not finite"
    text = f"{value:,.{digits}f}"
    if not text.strip("-0.,"):
        return text.lstrip("-")
    return text.replace("-", MINUS)


def percent(share: float) -> str:
    """A share of one in per cent, with one decimal.

    >>> percent(0.9123)
    '91.2'
    """
    return fixed(100 * share, 1)


def signed(points: float) -> str:
    """A difference in percentage points with its sign.

    >>> signed(1.26), signed(-0.5), signed(0.0)
    ('+1.3', '−0.5', '0.0')
    """
    text = fixed(points, 1)
    return f"+{text}" if points > 0 and text != "0.0" else text


def significant(value: float) -> str:
    """A number with three significant digits, and commas between thousands.

    >>> significant(0.04567), significant(12345.6), significant(0.0), significant(2.5e-9)
    ('0.0457', '12,346', '0', '2.5e-09')
    """
    if not math.isfinite(value):
        return "not finite"
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return fixed(value, 0)
    return f"{value:.3g}".replace("-", MINUS) if value < 0 else f"{value:.3g}"


def listed(words: Sequence[str]) -> str:
    """Words as a list in a sentence.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def counted(number: int, noun: str) -> str:
    """A number with its noun.

    >>> counted(1, "seed"), counted(3, "seed")
    ('1 seed', '3 seeds')
    """
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
