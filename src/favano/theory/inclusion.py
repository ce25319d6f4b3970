"""The chance pi_i to be selected in a weighted draw of s clients without repetition.

Clients are drawn one after the other, each time in proportion to the weights w of those left, which
is what the s smallest of independent exponential times T_i of rate w_i are. So

    pi_i = integral of w_i exp(-w_i t) P(N_i(t) < s) dt,

where N_i(t) counts the other clients with T_j <= t: independent events of chance 1 - exp(-w_j t).
Rounds are independent, so that the rounds between two selections of client i are geometric with
this chance. It is not s w_i / sum w: for s = 1 it is, and the larger s, the less weights count.
"""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import scipy

from favano.errors import BadInput, require
from favano.policies import BySamples, Polling, Rounds, Uniform, Weighted
from favano.types import Floats, Ints

_TAIL = 1e-14  # of the integral, left out at both ends
_AT_ONCE = 4_000_000  # numbers in memory, about
_MOST = 2e7  # distinct weights times s^1.5; more takes minutes


def inclusion(weights: Floats, size: int) -> Floats:
    """The chance of each client, (n,); their sum is s.

    >>> inclusion(np.array([2.0, 1.0, 1.0]), 1).round(12).tolist()
    [0.5, 0.25, 0.25]
    >>> inclusion(np.array([2.0, 1.0, 1.0]), 2).round(12).tolist()  # 1/2 + 2 1/4 2/3
    [0.833333333333, 0.583333333333, 0.583333333333]
    """
    if size == len(weights):
        return np.ones(len(weights))
    weight, member, count = np.unique(weights, return_inverse=True, return_counts=True)
    rule = "too many different weights for exact chances; use weights=monte-carlo or empirical"
    easy = len(weight) * size**1.5 <= _MOST
    require(easy, "selection", f"{len(weight)} weights", rule)
    # In log t the integrand falls off exponentially at both ends, so that the trapezoidal rule
    # converges as fast; the count of clients is sharper the more there are.
    last = (-np.log(_TAIL) + np.log(size)) / np.sort(weights)[-size - 1]
    width = 1 / (8 + 2 * np.sqrt(size))
    time = np.exp(np.arange(np.log(_TAIL / weight[-1]), np.log(last) + width, width))
    parts = np.array_split(time, int(np.ceil(len(time) * len(weight) * size / _AT_ONCE)))
    total = sum((_integrand(weight, count, size, part) for part in parts), np.zeros(len(weight)))
    return np.asarray(width * total[member])


def selection_chances(policy: Polling | Rounds, streams: Ints) -> Floats:
    """The chance of each client to be selected in a round, (n,), where rounds are independent.

    >>> policy = Polling(selected=1, selection=Weighted(weights=(3.0, 1.0)))
    >>> selection_chances(policy, np.arange(2)).round(3)
    array([0.75, 0.25])
    """
    match policy.selection:
        case Uniform():
            return np.full(len(streams), policy.selected / len(streams))
        case Weighted(weights=weight) | BySamples(samples=weight):
            return inclusion(np.array(weight)[streams], policy.selected)
    rule = "has no exact law of the step count; use weights=monte-carlo or empirical"
    raise BadInput("selection", policy.selection, rule)


def _integrand(weight: Floats, count: Ints, size: int, time: Floats) -> Floats:
    """The sum of t w exp(-w t) P(N < s) over some times, for each distinct weight."""
    drawn = -np.expm1(-np.outer(weight, time))  # (g, T)
    every = [_binomial(number, chance, size) for number, chance in zip(count, drawn, strict=True)]
    nobody = np.zeros((size, len(time)))
    nobody[0] = 1.0
    before = list(accumulate(every, _sum, initial=nobody))
    after = list(accumulate(reversed(every), _sum, initial=nobody))[::-1]
    total = np.empty(len(weight))
    for number, rate in enumerate(weight):
        others = before[number]
        if count[number] > 1:
            others = _sum(others, _binomial(count[number] - 1, drawn[number], size))
        fewer = (others * after[number + 1].cumsum(axis=0)[::-1]).sum(axis=0)
        total[number] = (rate * time * np.exp(-rate * time) * fewer).sum()
    return total


def _binomial(number: int, chance: Floats, size: int) -> Floats:
    """P(k of this number of clients), k = 0..min(number, s - 1), (k, T)."""
    if number == 1:
        return np.stack([1 - chance, chance])[:size]
    return np.asarray(
        scipy.stats.binom.pmf(np.arange(min(number + 1, size))[:, None], number, chance)
    )


def _sum(many: Floats, few: Floats) -> Floats:
    """The law of a sum of independent counts below s, (s, T)."""
    total: Floats = few[0] * many
    for more in range(1, len(few)):
        total[more:] += few[more] * many[: len(many) - more]
    return total
