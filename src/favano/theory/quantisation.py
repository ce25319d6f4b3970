"""The error floor of quantised weights, from the paper's remark on quantised networks.

If ||Q(x) - x||^2 <= r_d for all x, the bound of Theorem 1 gains a floor of 12 L^2 r_d, as printed.
4 L^2 r_d and terms that vanish with the learning rate suffice, for rates up to 1/(16 sqrt(2) B L K)
instead of 1/(16 B L K) (docs/errata.md, 18).
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from favano.errors import need
from favano.theory.problem import PaperForm

Rounding: TypeAlias = Literal["nearest", "stochastic"]


def quantisation_floor(
    smoothness: float, squared_error: float, form: PaperForm = "corrected"
) -> float:
    """The floor of ||grad f||^2: 4 L^2 r_d (printed: 12 L^2 r_d).

    >>> quantisation_floor(2.0, 0.5), quantisation_floor(2.0, 0.5, "printed")
    (8.0, 24.0)
    """
    need(smoothness > 0, "smoothness", smoothness, "need a positive number")
    need(squared_error >= 0, "squared_error", squared_error, "need a number >= 0")
    return (12 if form == "printed" else 4) * smoothness**2 * squared_error


def rounding_error(
    bits: int, *, box: float, dimension: int, rounding: Rounding = "nearest", average: bool = False
) -> float:
    """r_d of a uniform quantiser with 2^bits levels on [-box, box]^d, Delta = 2 box / (2^bits - 1).

    Nearest: at most d Delta^2 / 4, on average over a cell d Delta^2 / 12. Stochastic: at most
    d Delta^2; with `average`, the largest expectation over its draws, d Delta^2 / 4. All are
    Theta(d 4^-bits) as the paper says, but only on a box: no number of bits suffices on all of R^d.

    >>> [rounding_error(1, box=1.0, dimension=3, average=flag) for flag in (False, True)]
    [3.0, 1.0]
    """
    need(bits >= 1, "bits", bits, "need at least 1")
    need(box > 0, "box", box, "need a positive number")
    need(dimension >= 1, "dimension", dimension, "need at least 1")
    cell2 = (2 * box / float(2**bits - 1)) ** 2
    share = {"nearest": (1 / 4, 1 / 12), "stochastic": (1.0, 1 / 4)}
    return dimension * cell2 * share[rounding][average]
