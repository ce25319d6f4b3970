"""The law of X = min(E, K), the number of local steps in a client's update.

A polled client is contacted after G rounds, P(G = g) = p (1 - p)^(g-1), so it had the window
W = R G (R G - I if clients idle during the interaction). p = s/n, or the client's own chance in a
weighted selection (`inclusion`); other selections have no exact law. With step times D_1, D_2, ...

    E = #{j : D_1 + ... + D_j <= W},     P(X >= j) = sum_g P(G = g) P(D_1 + ... + D_j <= W_g).

Recorded step times are no draws but follow each other: `recordings` has their law in the long run.
Under the other policies a client answers with all its K steps, or after a deadline with none, or
with those that it has made by then.
Paper: Section 4, equation (3), and the appendix on simulated runtime.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from favano.errors import BadInput, require
from favano.policies import Policy, Polling, Rounds
from favano.policies.policy import check_selected
from favano.schedule.draws import alike_jobs, client_steps
from favano.theory.absence import check_conditions, expected_contacts, polled_tails
from favano.theory.durations import check_law, finished, job_laws
from favano.theory.inclusion import selection_chances
from favano.theory.recordings import deadline_steps, polled_steps
from favano.timing import ClientSpeeds, Deterministic, Exponential, Geometric, StepLaw, Trace
from favano.types import Floats, Ints

_TAIL = 1e-15  # probability of the gaps left out
RESOLUTION = 256  # grid cells per mean step, for laws without a closed form


@dataclass(frozen=True)
class StepCount:
    """The law of X on {0, ..., K}: `pmf[k]` = P(X = k)."""

    pmf: Floats

    def __post_init__(self) -> None:
        good = len(self.pmf) > 1 and bool((self.pmf >= 0).all())
        good = good and abs(float(self.pmf.sum()) - 1) < 1e-9
        require(good, "pmf", self.pmf, "need probabilities of 0..K that sum to 1")

    @property
    def local_steps(self) -> int:
        """The largest number of steps K."""
        return len(self.pmf) - 1

    @property
    def p_positive(self) -> float:
        """P(X > 0) = P(E > 0), the weight of the stochastic rule."""
        return min(1.0, float(self.pmf[1:].sum()))  # the sum may be rounded up

    @property
    def mean(self) -> float:
        """E[X], the weight of the deterministic rule."""
        return float(self.pmf @ self.counts)

    @property
    def second_moment(self) -> float:
        """E[X^2]."""
        return float(self.pmf @ self.counts**2)

    @property
    def variance(self) -> float:
        """Var X."""
        return self.second_moment - self.mean**2

    @property
    def mean_inverse(self) -> float:
        """E[1{X > 0} / X]."""
        return float(self.pmf[1:] @ (1.0 / self.counts[1:]))

    def capped(self, local_steps: int) -> StepCount:
        """The law of min(X, local_steps): the same client with fewer steps allowed."""
        rule = f"need 1..K ({self.local_steps})"
        require(1 <= local_steps <= self.local_steps, "local_steps", local_steps, rule)
        return StepCount(np.append(self.pmf[:local_steps], self.pmf[local_steps:].sum()))

    @property
    def counts(self) -> Floats:
        """0, 1, ..., K."""
        return np.arange(len(self.pmf), dtype=np.float64)


class ClassLaw(NamedTuple):
    """Clients whose step counts have the same law."""

    members: Ints
    law: StepCount


def step_count(
    policy: Policy,
    *,
    clients: int,
    law: StepLaw,
    mean: float,
    chance: float | None = None,
    resolution: int = RESOLUTION,
) -> StepCount:
    """Law of X for a client of the given mean step time, under the policy's reading of the clock.

    Where clients differ in K, it is that of the client with the largest. Laws without a closed form
    are convolved on a grid of `resolution` cells per mean step. `chance` is the client's to be
    selected at a tick; by default that of the uniform selection.

    >>> policy = Polling(selected=20, local_steps=20)
    >>> law = step_count(policy, clients=100, law=Geometric(), mean=16)
    >>> round(law.p_positive, 6), round(law.mean, 6)
    (0.740627, 2.186981)
    """
    check_law(law, mean)
    if not isinstance(policy, Polling):
        return _in_rounds(policy, law, mean, resolution)
    check_selected(policy.selected, clients)
    if policy.step_count != "durations":
        return _literal(policy, mean)
    resumed = policy.interruption == "resume" and not _is_memoryless(policy, law)
    if policy.interruption == "keep" or resumed:
        rule = "has no exact law of the step count; use weights=monte-carlo or empirical"
        raise BadInput("interruption", policy.interruption, rule)
    chance = policy.selected / clients if chance is None else chance
    if isinstance(law, Trace):
        return _from_tail(np.minimum(polled_steps(law.rows[0], policy, chance), 1.0))
    rounds = 1 if chance == 1 else int(np.ceil(np.log(_TAIL) / np.log1p(-chance))) + 1
    gap = np.arange(1, rounds + 1, dtype=np.float64)
    weight = (1 - chance) ** (gap - 1)
    reached = finished(
        law,
        mean,
        policy.window(gap),
        policy.longest_job,
        strict=policy.strict_ties,
        cell=mean / resolution,
    )
    # A sum of weights and the product with ones are rounded differently; no chance exceeds 1.
    return _from_tail(np.minimum(weight @ reached / weight.sum(), 1.0))


def class_laws(
    policy: Policy, fleet: ClientSpeeds, *, resolution: int = RESOLUTION
) -> list[ClassLaw]:
    """The law of every client's step count, once for each distinct speed, K and chance.

    Where clients come and go, once for each K, speed and presence; those that are never asked are
    left out.

    >>> from favano.timing import two_speeds
    >>> for members, law in class_laws(Polling(selected=20, local_steps=20), two_speeds(100)):
    ...     print(len(members), round(law.mean, 4))
    67 12.4929
    33 2.187
    """
    chance, size = np.zeros(fleet.clients), fleet.clients  # a chance matters for polling alone
    check_conditions(policy, fleet)
    if isinstance(policy, Polling) and policy.step_count == "durations":
        if (presence := fleet.conditions.presence) is not None:
            tails = polled_tails(policy, fleet, presence, resolution)
            return [ClassLaw(who, _from_tail(at_least)) for who, at_least in tails]
        check_selected(policy.selected, size)
        chance = selection_chances(policy, fleet.streams)
    laws = []
    for who, law, mean, steps in job_laws(fleet, fleet.law, client_steps(policy, fleet)):
        own = replace(policy, local_steps=steps)
        for each in np.unique(chance[who]).tolist():
            count = step_count(
                own, clients=size, law=law, mean=mean, chance=each, resolution=resolution
            )
            laws.append(ClassLaw(who[chance[who] == each], count))
    return laws


def expected_counts(policy: Policy, fleet: ClientSpeeds) -> tuple[Floats, Floats]:
    """P(E_i > 0) and E[min(E_i, K)] of every client, the two weights of equation (3).

    NaN: a client that is never there when the server asks.

    >>> from favano.timing import two_speeds
    >>> positive, mean = expected_counts(Polling(selected=20, local_steps=20), two_speeds(100))
    >>> round(float(mean.max()), 4), round(float(positive.min()), 4)
    (12.4929, 0.7406)
    """
    positive, mean = np.full((2, fleet.clients), np.nan)
    for members, law in class_laws(policy, fleet):
        positive[members], mean[members] = law.p_positive, law.mean
    return positive, mean


def speed_laws(policy: Polling, fleet: ClientSpeeds, horizon: float) -> list[ClassLaw]:
    """The same for each speed and K: the law of a contact of any of these clients.

    >>> from favano.timing import two_speeds
    >>> len(speed_laws(Polling(selected=20, local_steps=20), two_speeds(100), 5000.0))
    2
    """
    laws = class_laws(policy, fleet)
    if fleet.conditions.presence is None:
        return laws
    contacts, merged = expected_contacts(policy, fleet, horizon), []
    number = alike_jobs(fleet.alike, client_steps(policy, fleet))
    kind = np.array([number[members[0]] for members, _ in laws])
    for each in np.unique(kind):
        those = [law for law, own in zip(laws, kind, strict=True) if own == each]
        weight = np.array([contacts[members].sum() for members, _ in those])
        pmf = weight @ np.stack([law.pmf for _, law in those]) / weight.sum()
        merged.append(ClassLaw(np.concatenate([members for members, _ in those]), StepCount(pmf)))
    return merged


def _from_tail(at_least: Floats) -> StepCount:
    """The law from P(X >= j), j = 1..K."""
    tail = np.concatenate([[1.0], at_least, [0.0]])
    return StepCount(np.maximum(tail[:-1] - tail[1:], 0.0))


def _is_memoryless(policy: Polling, law: StepLaw) -> bool:
    """Whether what is left of a step at a contact has the law of a new step.

    Geometric steps are memoryless in whole units of time, so the contacts must be there; under
    `strict_ties` a step that ends at a contact has nothing left.
    """
    whole = bool(np.all(policy.window(np.arange(1, 3)) % 1 == 0)) and not policy.strict_ties
    return isinstance(law, Exponential) or (isinstance(law, Geometric) and whole)


def _in_rounds(policy: Policy, law: StepLaw, mean: float, resolution: int) -> StepCount:
    """X = K; if a deadline passes first, 0, or what was made by then if the policy takes it."""
    steps, cell = policy.longest_job, mean / resolution
    if not isinstance(policy, Rounds) or policy.deadline is None:
        return _from_tail(np.ones(steps))
    if policy.round_time == "one-draw":  # j steps last j D
        time = policy.deadline / np.arange(steps, 0, -1)
        reached = finished(law, mean, time, 1, cell=cell)[::-1, 0]
    elif policy.round_time == "sum" and isinstance(law, Trace):
        reached = deadline_steps(law.rows[0], steps, policy.deadline)
    else:
        own = law if policy.round_time == "sum" else Deterministic()
        reached = finished(own, mean, np.array([policy.deadline]), steps, cell=cell)[0]
    reached = np.minimum(reached, 1.0)
    return _from_tail(reached if policy.at_deadline == "take" else np.full(steps, reached[-1]))


def _literal(policy: Polling, mean: float) -> StepCount:
    """E itself geometric with parameter 1/m, on {1, 2, ...} or {0, 1, ...}, capped at K."""
    Geometric().check(np.array([mean]))
    failures = np.arange(policy.longest_job + 1) - (0 if policy.step_count == "literal-zero" else 1)
    pmf = np.where(failures >= 0, (1.0 - 1.0 / mean) ** np.maximum(failures, 0) / mean, 0.0)
    pmf[-1] = 1.0 - pmf[:-1].sum()
    return StepCount(pmf)
