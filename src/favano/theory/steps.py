"""The law of X = min(E, K), the local steps a polled client has made when the server calls.

A client is contacted after G rounds, P(G = g) = p (1 - p)^(g-1) with p = s/n, so it had the window
W = R G (R G - I where clients idle while the server talks). With step durations D_1, D_2, ...

    E = #{j : D_1 + ... + D_j <= W},     P(X >= j) = sum_g P(G = g) P(D_1 + ... + D_j <= W_g).

The inner probability is exact for geometric (binomial), exponential (Poisson) and constant steps,
and a convolution on a grid for other laws. Paper: Section 3 and the appendix on simulated runtime.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import fft, special

from favano.errors import BadInput
from favano.schedule import Poll
from favano.timing import Deterministic, Exponential, Fleet, Geometric, LogNormal, StepLaw, Trace
from favano.types import Floats, Ints

_TAIL = 1e-15  # probability of the gaps left out
_CELLS = 1024  # grid cells a period, for laws without a closed form


@dataclass(frozen=True)
class StepCount:
    """The law of X on {0, ..., K}: `pmf[k]` = P(X = k)."""

    pmf: Floats

    @property
    def p_positive(self) -> float:
        """P(X > 0) = P(E > 0), the weight of the stochastic rule."""
        return float(self.pmf[1:].sum())

    @property
    def mean(self) -> float:
        """E[X], the weight of the deterministic rule."""
        return float(self.pmf @ self._k)

    @property
    def second_moment(self) -> float:
        """E[X^2]."""
        return float(self.pmf @ self._k**2)

    @property
    def mean_inverse(self) -> float:
        """E[1{X > 0} / X]."""
        return float(self.pmf[1:] @ (1.0 / self._k[1:]))

    @property
    def _k(self) -> Floats:
        return np.arange(len(self.pmf), dtype=np.float64)


def step_count(policy: Poll, *, clients: int, law: StepLaw, mean: float) -> StepCount:
    """Law of X for a client of the given mean step time, under the policy's reading of the clock.

    >>> law = step_count(Poll(selected=20, local_steps=20), clients=100, law=Geometric(), mean=16)
    >>> round(law.p_positive, 6), round(law.mean, 6)
    (0.740627, 2.186981)
    """
    if policy.step_count != "durations":
        return _literal(policy, mean)
    memoryless = isinstance(law, Geometric | Exponential)
    if policy.interruption == "keep" or (policy.interruption == "resume" and not memoryless):
        rule = "has no exact law of the step count; use weights=monte-carlo or empirical"
        raise BadInput("interruption", policy.interruption, rule)
    chance = policy.selected / clients
    rounds = 1 if chance == 1 else int(np.ceil(np.log(_TAIL) / np.log1p(-chance))) + 1
    gap = np.arange(1, rounds + 1, dtype=np.float64)
    weight = (1 - chance) ** (gap - 1)
    idle = policy.interaction_time if policy.idle_in_interaction else 0.0
    reached = _reached(law, mean, policy.period * gap - idle, policy)  # (rounds, K)
    at_least = np.concatenate([[1.0], weight @ reached / weight.sum(), [0.0]])
    return StepCount(np.maximum(at_least[:-1] - at_least[1:], 0.0))


def expected_counts(policy: Poll, fleet: Fleet) -> tuple[Floats, Floats]:
    """P(E_i > 0) and E[min(E_i, K)] of every client, computed once for each distinct speed."""
    positive, mean = np.empty(fleet.clients), np.empty(fleet.clients)
    if isinstance(fleet.law, Trace):
        members = [(client, Trace((fleet.law.rows[fleet.streams[client]],))) for client in
                   range(fleet.clients)]  # fmt: skip
        for client, law in members:
            found = step_count(policy, clients=fleet.clients, law=law, mean=fleet.mean[client])
            positive[client], mean[client] = found.p_positive, found.mean
        return positive, mean
    for speed in np.unique(fleet.mean):
        found = step_count(policy, clients=fleet.clients, law=fleet.law, mean=float(speed))
        positive[fleet.mean == speed] = found.p_positive
        mean[fleet.mean == speed] = found.mean
    return positive, mean


def _literal(policy: Poll, mean: float) -> StepCount:
    """E itself geometric with parameter 1/m, on {1, 2, ...} or {0, 1, ...}, capped at K."""
    failures = np.arange(policy.local_steps + 1) - (0 if policy.step_count == "literal-zero" else 1)
    pmf = np.where(failures >= 0, (1.0 - 1.0 / mean) ** np.maximum(failures, 0) / mean, 0.0)
    pmf[-1] = 1.0 - pmf[:-1].sum()
    return StepCount(pmf)


def _binomial_tail(successes: Ints, trials: Floats, chance: float) -> Floats:
    """P(Bin(trials, chance) >= successes), 0 where there are too few trials."""
    enough = successes <= trials
    tail = special.betainc(successes, np.where(enough, trials - successes + 1, 1.0), chance)
    return np.where(enough, tail, 0.0)


def _reached(law: StepLaw, mean: float, window: Floats, policy: Poll) -> Floats:
    """P(D_1 + ... + D_j <= W) for each window and j = 1..K: (len(window), K)."""
    j = np.arange(1, policy.local_steps + 1)
    strict = policy.strict_ties
    match law:
        case Geometric():
            trials = np.ceil(window - 1e-9) - 1 if strict else np.floor(window + 1e-9)
            return _binomial_tail(j, np.maximum(trials, 0)[:, None], 1.0 / mean)
        case Exponential():
            return np.asarray(special.pdtrc(j - 1, window[:, None] / mean))
        case Deterministic():
            end = j * mean
            return np.asarray(end < window[:, None] - 1e-9 if strict else end <= window[:, None])
        case _:
            return _convolved(law, mean, window, policy)


def _convolved(law: StepLaw, mean: float, window: Floats, policy: Poll) -> Floats:
    """The same for any other law, from the K-fold convolution of its mass on a grid."""
    whole = np.concatenate([law.rows[0], window]) if isinstance(law, Trace) else np.array([0.5])
    cell = 1.0 if (whole == np.round(whole)).all() else policy.period / _CELLS
    horizon = min(float(window[-1]), policy.local_steps * mean * 20 + policy.period)
    cells = int(horizon / cell) + 1
    place = np.arange(cells)
    mass = np.zeros(cells)
    match law:
        case LogNormal(spread=spread):
            with np.errstate(divide="ignore"):
                edge = np.log(np.maximum((place + 0.5) * cell, 0.0))
            below = special.ndtr((edge - np.log(mean) + spread**2 / 2) / spread)
            mass = np.diff(below, prepend=0.0)
        case Trace(rows=rows):
            at = np.round(rows[0] / cell).astype(np.int64)
            np.add.at(mass, at[at < cells], 1.0 / len(at))
        case _:
            raise BadInput("step_law", law, "has no known law of the step count")
    size = fft.next_fast_len(2 * cells, real=True)
    factor = fft.rfft(mass, size)
    limit = window / cell - (1 if policy.strict_ties and cell == 1.0 else 0)
    read = np.minimum(np.floor(limit + 1e-9).astype(np.int64), cells - 1)
    current, reached = np.zeros(cells), []
    current[0] = 1.0
    for _ in range(policy.local_steps):
        current = fft.irfft(fft.rfft(current, size) * factor, size)[:cells]
        reached.append(np.clip(np.cumsum(current)[np.maximum(read, 0)] * (read >= 0), 0.0, 1.0))
    return np.stack(reached, axis=1)
