"""How many steps a client was expected to make: known weights, or frequencies seen so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from favano.errors import BadInput, need
from favano.types import Floats, Ints

Reweight = Literal["stochastic", "deterministic", "none"]


@dataclass(frozen=True)
class Known:
    """P_i = P(E_i > 0) and M_i = E[min(E_i, K)] of every client, from theory or from the user."""

    positive: Floats  # (n,)
    mean: Floats  # (n,)

    def __post_init__(self) -> None:
        outside = self.positive[~((self.positive > 0) & (self.positive <= 1))]
        if len(outside):
            raise BadInput("weights", outside[0], "need P(E > 0) in (0, 1] for every client")
        need(bool((self.mean > 0).all()), "weights", self.mean.min(), "need E[X] > 0")


@dataclass(frozen=True)
class Empirical:
    """Running frequencies, pooled over the clients of a group (a speed class, where known).

    P = (1 + #{contacts with E > 0}) / (1 + #contacts), M = (1 + sum X) / (1 + #contacts).
    """

    group: Ints  # (n,)


Weights: TypeAlias = Known | Empirical


class Seen(NamedTuple):
    """Contacts so far, by group."""

    contacts: Ints
    positive: Ints
    steps: Ints


def nothing_seen(weights: Weights) -> Seen:
    """Before the first contact."""
    none = np.zeros(int(weights.group.max()) + 1 if isinstance(weights, Empirical) else 0, int)
    return Seen(none, none, none)


def count(weights: Weights, seen: Seen, client: Ints, steps: Ints) -> Seen:
    """The same after these contacts."""
    if isinstance(weights, Known):
        return seen
    group, size = weights.group[client], len(seen.contacts)
    return Seen(
        seen.contacts + np.bincount(group, minlength=size),
        seen.positive + np.bincount(group[steps > 0], minlength=size),
        seen.steps + np.bincount(group, steps, minlength=size).astype(np.int64),
    )


def alpha(rule: Reweight, weights: Weights, seen: Seen, client: Ints, steps: Ints) -> Floats:
    """The divisor alpha_i of a client's progress: P_i X_i, or M_i, or 1 (paper, Section 3).

    A client that made no step has no progress to divide: its alpha is 1.
    """
    if isinstance(weights, Known):
        positive, mean = weights.positive[client], weights.mean[client]
    else:
        contacts = 1.0 + seen.contacts[weights.group[client]]
        positive = (1.0 + seen.positive[weights.group[client]]) / contacts
        mean = (1.0 + seen.steps[weights.group[client]]) / contacts
    divisor = {"stochastic": positive * steps, "deterministic": mean, "none": np.ones(len(steps))}
    return np.where(steps > 0, divisor[rule], 1.0)
