"""Upper limits on the learning rate: those that the proof uses, and limits that suffice."""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

from favano.theory.problem import PaperForm, TheoryProblem, TheorySetting, check_rate


class Condition(NamedTuple):
    """An upper limit on eta."""

    formula: str
    limit: float
    where: str  # in the proof, or what it is for
    stated: bool = False  # in the statement of Theorem 1


def proof_conditions(setting: TheorySetting, problem: TheoryProblem) -> tuple[Condition, ...]:
    """The conditions that the paper's proof uses.

    Theorem 1 states only the last. It implies the first only if 5 B^2 b s >= K, and it does not
    give the descent it is used for if K < 6 (errata, 12).

    >>> example = TheorySetting(clients=100, selected=20, local_steps=20, mean_a=0.34, b=1.0)
    >>> [f"{each.limit:.3g}" for each in proof_conditions(example, TheoryProblem())]
    ['0.000625', '0.025', '0.0025', '2.52', '0.000125']
    """
    n, s, steps, b = setting.clients, setting.selected, setting.local_steps, setting.b
    smooth, growth2 = problem.smoothness, problem.growth**2
    return (
        Condition("1/(4 L K^2)", 1 / (4 * smooth * steps**2), "bound on local gradients"),
        Condition("1/(2 L K)", 1 / (2 * smooth * steps), "drift of the clients"),
        Condition("1/(20 s L b)", 1 / (20 * s * smooth * b), "potential"),
        Condition("(n+1)/(2 s L b)", (n + 1) / (2 * s * smooth * b), "c1"),
        Condition(
            "1/(20 B^2 b K L s)", 1 / (20 * growth2 * b * steps * smooth * s), "last step", True
        ),
    )


def sufficient_conditions(setting: TheorySetting, problem: TheoryProblem) -> tuple[Condition, ...]:
    """Conditions that suffice for `bound_full`, for every K and s.

    The first three use 1/8, 1/16 and 1/16 of the available quarter to give D >= s eta / (2(n+1)).
    The first also gives rho >= 1/(5n), since 48 s^2 L^2 b eta^2 <= 48/152^2 < 1/20.

    >>> example = TheorySetting(clients=100, selected=20, local_steps=20, mean_a=0.34, b=1.0)
    >>> [f"{each.limit:.3g}" for each in sufficient_conditions(example, TheoryProblem())]
    ['0.000329', '0.00313', '0.0789', '0.000625', '0.0025']
    """
    n, s, steps, b = setting.clients, setting.selected, setting.local_steps, setting.b
    smooth, growth = problem.smoothness, problem.growth
    potential = 1 / (152 * growth * sqrt(b) * smooth * s)
    event = (n + 1) / (64 * b * growth**2 * smooth * s)
    return (
        Condition("1/(152 B b^(1/2) L s)", potential, "potential against descent"),
        Condition("1/(16 B L K)", 1 / (16 * growth * smooth * steps), "drift"),
        Condition("(n+1)/(64 b B^2 L s)", event, "second moment"),
        *proof_conditions(setting, problem)[0:3:2],
    )


def largest_rate(
    setting: TheorySetting, problem: TheoryProblem, form: PaperForm = "corrected"
) -> float:
    """The largest learning rate for which the theorem holds (`printed`: is claimed to hold).

    >>> example = TheorySetting(clients=100, selected=20, local_steps=20, mean_a=0.34, b=1.3502)
    >>> f"{largest_rate(example, TheoryProblem(), 'printed'):.2e}"
    '9.26e-05'
    """
    if form == "printed":
        return proof_conditions(setting, problem)[-1].limit
    return min(each.limit for each in sufficient_conditions(setting, problem))


def descent_ratio(setting: TheorySetting, problem: TheoryProblem, rate: float) -> float:
    """D / (s eta / (2(n+1))) with the paper's rounded c1 and d1; the theorem needs at least 1.

    >>> example = TheorySetting(clients=100, selected=20, local_steps=5, mean_a=0.34, b=1.0)
    >>> rate = largest_rate(example, TheoryProblem(), "printed")
    >>> round(descent_ratio(example, TheoryProblem(), rate), 2)
    0.92
    """
    check_rate(rate)
    n, s, steps, b = setting.clients, setting.selected, setting.local_steps, setting.b
    smooth, growth2 = problem.smoothness, problem.growth**2
    correction = 16 * smooth**2 * rate**2 * steps**2 * growth2
    event = 4 * smooth * s * rate * b * growth2 / (n + 1)
    potential = 2880 * smooth**2 * s**2 * rate**2 * growth2 * b
    return 2 * (0.75 - correction - event - potential)
