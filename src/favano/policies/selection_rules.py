"""The selection rules that look at nothing but who and when."""

from __future__ import annotations

import numpy as np

from favano.errors import require
from favano.options import PositiveTime, option
from favano.policies.selection import Candidates, Selection
from favano.rng import Bits
from favano.types import Floats, Ints


class Uniform(Selection):
    """All clients alike."""

    def keys(self, clients: Candidates) -> Bits:
        return clients.bits


class Weighted(Selection):
    """Drawn one after the other, each with probability w_i / (sum of w over those left).

    Made by the keys -log(1 - u_i) / w_i with uniform u_i, of which the s smallest are selected
    (Efraimidis and Spirakis 2006, Algorithm A, in logarithms); with equal weights the draws are
    those of `uniform`. The chance to be among the s is not exactly proportional to w_i, since
    nobody is selected twice: large weights count for less. `theory.inclusion` computes it.
    """

    weights: tuple[PositiveTime, ...] = option(
        (), "chances w: one per speed class (fast first) or per client"
    )

    def check(self) -> None:
        rule = "need one number per speed class (fast first) or per client, as weighted:3,1"
        require(len(self.weights) > 0, "weights", list(self.weights), rule)

    def keys(self, clients: Candidates) -> Floats:
        return exponential_keys(clients, np.array(self.weights)[clients.client])


class BySamples(Selection):
    """As `weighted`; the weight of a client is its number of training samples."""

    name, uses_samples = "samples", True

    def keys(self, clients: Candidates) -> Floats:
        return exponential_keys(clients, clients.samples)


class LeastRecent(Selection):
    """Those that were selected longest ago; of equal ones, as at the beginning, at random."""

    name = "least-recent"

    def select(self, clients: Candidates, size: int) -> Ints:
        return clients.client[np.lexsort((clients.bits, clients.last))[:size]]


def exponential_keys(clients: Candidates, weight: Floats) -> Floats:
    """Exponential draws with these rates: the smallest are a weighted draw without repetition."""
    return np.asarray(-np.log1p(-clients.random) / weight)
