"""Advice: the s, K, tick and learning rate that reach a target soonest according to the theorem.

The time to a target eps is T (I + V), with the fewest server steps T for which the corrected bound
of Theorem 1 is at most eps, over all learning rates it allows. It is computed for a grid of s, K
and V, and again with each constant of the problem at either end of its interval, which shows how
certain the answer is. The bound is a worst case, so the times are upper bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from math import isfinite

import numpy as np

from favano.errors import require
from favano.policies import Polling, StepsPerJob
from favano.schedule.draws import client_steps
from favano.theory.bounds import full_expansion
from favano.theory.coefficients import Form, check_always_there, check_uniform, setting_of
from favano.theory.complexity import Choice, fewest_rounds
from favano.theory.conditions import largest_rate, sufficient_conditions
from favano.theory.estimators import Rule
from favano.theory.problem import SMALLEST, TheoryProblem, TheorySetting, check_target
from favano.theory.steps import ClassLaw, class_laws
from favano.timing import ClientSpeeds, Deterministic, Exponential, Geometric
from favano.types import Ints

_STEPS = (1, 2, 3, 5, 8, 12, 20, 32, 50)
_PLACES = 9  # grid points for s and for the tick
_FEWER = 5  # the same if every law is a convolution
_COARSE = 32  # grid cells per mean step of such laws
_AS_GOOD = 1.1  # within a tenth of the best


@dataclass(frozen=True)
class Estimate:
    """A constant with an interval."""

    value: float
    low: float
    high: float

    def __post_init__(self) -> None:
        good = isfinite(self.high) and 0 <= self.low <= self.value <= self.high
        require(
            good, "estimate", (self.low, self.value, self.high), "need 0 <= low <= value <= high"
        )


def known(value: float) -> Estimate:
    """A constant that is known exactly.

    >>> known(2.0)
    Estimate(value=2.0, low=2.0, high=2.0)
    """
    return Estimate(value, value, value)


@dataclass(frozen=True, kw_only=True)
class Estimates:
    """The constants of a `Problem`, each with an interval."""

    smoothness: Estimate  # L
    noise: Estimate  # sigma
    dissimilarity: Estimate  # G
    growth: Estimate  # B
    gap: Estimate  # F

    @property
    def problem(self) -> TheoryProblem:
        """The constants at their values."""
        return next(self.corners(("value",)))

    def corners(self, ends: Sequence[str] = ("value", "low", "high")) -> Iterator[TheoryProblem]:
        """All combinations of the constants' ends, each once; the first has the values."""
        names = vars(self)
        sides = [
            list(dict.fromkeys(getattr(estimate, end) for end in ends))
            for estimate in names.values()
        ]
        for chosen in product(*sides):
            yield TheoryProblem(**dict(zip(names, chosen, strict=True)))


def estimates_of(problem: TheoryProblem) -> Estimates:
    """Constants that are known exactly.

    >>> estimates_of(TheoryProblem(smoothness=3.0)).smoothness.high
    3.0
    """
    return Estimates(**{name: known(value) for name, value in asdict(problem).items()})


@dataclass(frozen=True)
class Candidate:
    """One way to run FAVANO."""

    setting: TheorySetting
    tick: float  # I + V
    local_steps: StepsPerJob  # K of all clients, or of each

    def choice(self, problem: TheoryProblem, target: float) -> Choice:
        """The learning rate that reaches the target in the fewest server steps."""
        cap = largest_rate(self.setting, problem)
        return fewest_rounds(full_expansion(self.setting, problem), cap, target)

    def time(self, problem: TheoryProblem, target: float) -> float:
        """Simulated time to the target."""
        return self.tick * self.choice(problem, target).rounds


@dataclass(frozen=True)
class Advice:
    """The advised choice, the time it takes, and how certain that is."""

    selected: int
    local_steps: StepsPerJob
    tick: float
    learning_rate: float
    rounds: float
    time: float
    time_low: float  # over the intervals of the constants
    time_high: float
    agreement: float  # share of the constants' corners where nothing is 10 % better
    present_time: float  # with the s, K and tick of the given policy
    limit: str  # what keeps the learning rate from being larger

    @property
    def how_sure(self) -> tuple[str, ...]:
        """Sentences on how far the answer can be trusted."""
        spread = f"{self.time_low:.3g} to {self.time_high:.3g}"
        return (
            f"The learning rate is limited by {self.limit}.",
            f"Over the intervals of the constants the time ranges from {spread}; in "
            f"{self.agreement:.0%} of the corners no other choice is more than 10 % faster.",
            "Times are worst-case guarantees: runs at larger rates are often much faster.",
        )


def advise(
    policy: Polling,
    fleet: ClientSpeeds,
    estimates: Estimates,
    target: float,
    *,
    rule: Rule = "stochastic",
    form: Form = "rigorous",
) -> Advice:
    """The candidate with the shortest time to the target, from a grid around the policy.

    >>> from favano.timing import two_speeds
    >>> policy = Polling(selected=6, local_steps=20)
    >>> found = advise(policy, two_speeds(30), estimates_of(TheoryProblem()), target=0.1)
    >>> found.time <= found.present_time, found.agreement
    (True, 1.0)
    """
    check_target(target)
    options = list(candidates(policy, fleet, rule, form))
    present, *_ = options
    problem = estimates.problem
    best = min(options, key=lambda option: option.time(problem, target))
    corners = list(estimates.corners())
    own = np.array([best.time(corner, target) for corner in corners])
    shortest = np.array([min(o.time(corner, target) for o in options) for corner in corners])
    choice = best.choice(problem, target)
    return Advice(
        selected=best.setting.selected,
        local_steps=best.local_steps,
        tick=best.tick,
        learning_rate=choice.rate,
        rounds=choice.rounds,
        time=best.time(problem, target),
        time_low=float(own.min()),
        time_high=float(own.max()),
        agreement=float((own <= _AS_GOOD * shortest).mean()),
        present_time=present.time(problem, target),
        limit=_limit(best.setting, problem, choice.rate),
    )


def candidates(policy: Polling, fleet: ClientSpeeds, rule: Rule, form: Form) -> Iterator[Candidate]:
    """The given policy, then a grid of s, K and tick around it.

    Ticks in which some client can never finish a step are left out; a policy with such a tick is
    refused.
    """
    check_always_there(fleet)
    check_uniform(policy)
    present, longest = policy.local_steps, policy.longest_job
    steps = sorted({longest, *(k for k in _STEPS if k <= 2 * longest)})
    quickest, talk = float(fleet.mean.min()), policy.interaction_time
    widest = max(policy.period, talk + 4 * float(fleet.mean.max()))
    closed = isinstance(fleet.law, Geometric | Exponential | Deterministic)
    places = _PLACES if closed else _FEWER
    ticks = np.geomspace(max(talk, quickest / 2), widest, places).tolist()
    sizes = np.unique(np.geomspace(1, fleet.clients, places).round().astype(int)).tolist()
    pairs = [(policy.selected, policy.period)]
    pairs += [pair for pair in product(sizes, ticks) if pair not in pairs]
    for selected, tick in pairs:
        waiting = max(0.0, tick - talk)
        most = replace(policy, selected=selected, local_steps=steps[-1], waiting_time=waiting)
        laws = class_laws(most, fleet, resolution=_COARSE)
        if (selected, tick) != pairs[0] and min(law.p_positive for _, law in laws) < SMALLEST:
            continue
        for count in [present, *(k for k in steps if k != present)]:
            each = client_steps(replace(policy, local_steps=count), fleet)
            capped = [law for known in laws for law in _capped(known, each)]
            yield Candidate(setting_of(capped, selected, rule, form), most.period, count)


def _capped(known: ClassLaw, steps: Ints) -> Iterator[ClassLaw]:
    """The laws of these clients with so many steps allowed, (n,)."""
    own = steps[known.members]
    for most in np.unique(own).tolist():
        yield ClassLaw(known.members[own == most], known.law.capped(most))


def _limit(setting: TheorySetting, problem: TheoryProblem, rate: float) -> str:
    tightest = min(sufficient_conditions(setting, problem), key=lambda each: each.limit)
    if rate >= tightest.limit * (1 - 1e-12):
        return f"eta <= {tightest.formula}"
    return "noise and dissimilarity at this target"
