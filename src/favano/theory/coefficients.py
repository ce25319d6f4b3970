"""The coefficients a_i and b of Theorem 1, through which the clients' speeds enter the bound.

For alpha = P(E > 0) X:    a = 1 / (K^2 P) + r / P^2,         b = 1 / P         with r = E[1{X>0}/X]
for alpha = E[X]:          a = 1 / m1 + m2 / (K^2 m1^2),      b = m2 / m1^2     with m_k = E[X^k]

`printed` is the theorem as it stands: its second line has m1 where the proof gives m1^2, so that it
is false if E[X] is small. `corrected` is given above. `rigorous` also closes a gap in the
proof: local steps are neither independent nor of equal mean, which costs a factor of 13/12 on the
part of a that comes from the noise of the steps (errata, 4 and 5).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

from favano.errors import require
from favano.policies import Polling, Uniform
from favano.theory.estimators import Rule, check_reachable
from favano.theory.problem import TheorySetting
from favano.theory.steps import ClassLaw, StepCount, class_laws
from favano.timing import ClientSpeeds

Form: TypeAlias = Literal["printed", "corrected", "rigorous"]
"""Of the coefficients a and b: as printed, as corrected, or with the gap in the proof closed."""
_DEPENDENCE = 13 / 12


class Coefficients(NamedTuple):
    """a_i and b_i of one client."""

    a: float
    b: float


def coefficients(
    law: StepCount, rule: Rule, form: Form = "corrected", most: int | None = None
) -> Coefficients:
    """a_i and b_i of a client whose step count has this law.

    K is `most`, by default the client's own: X of a client with fewer steps never exceeds it.

    >>> import numpy as np
    >>> always = StepCount(np.array([0.0, 0.0, 1.0]))  # E = K = 2
    >>> coefficients(always, "deterministic"), coefficients(always, "deterministic", "printed")
    (Coefficients(a=0.75, b=1.0), Coefficients(a=1.0, b=2.0))
    """
    check_reachable(law)
    square, noise = (most or law.local_steps) ** 2, _DEPENDENCE if form == "rigorous" else 1.0
    if rule == "stochastic":
        chance = law.p_positive
        return Coefficients(
            1 / (square * chance) + noise * law.mean_inverse / chance**2, 1 / chance
        )
    spread = law.second_moment / (law.mean if form == "printed" else law.mean**2)
    return Coefficients(noise / law.mean + spread / square, spread)


def setting(
    policy: Polling, fleet: ClientSpeeds, rule: Rule, form: Form = "corrected"
) -> TheorySetting:
    """FAVANO with this policy on this fleet, as Theorem 1 sees it.

    >>> from favano.timing import two_speeds
    >>> found = setting(Polling(selected=20, local_steps=20), two_speeds(100), "stochastic")
    >>> round(found.mean_a, 4), round(found.b, 4)
    (0.3391, 1.3502)
    """
    check_always_there(fleet)
    check_uniform(policy)
    return setting_of(class_laws(policy, fleet), policy.selected, rule, form)


def check_always_there(fleet: ClientSpeeds) -> None:
    """Refuse fleets that the theorem does not cover.

    >>> from favano.timing import two_speeds
    >>> check_always_there(two_speeds(2))
    """
    text = "the theorem is about clients that are always there, without links, timeouts and faults"
    require(fleet.conditions.always_there, "fleet", "absence or faults", text)


def check_uniform(policy: Polling) -> None:
    """Refuse selections that the theorem does not cover."""
    text = "need uniform: the theorem is about clients that are all selected alike"
    require(policy.selection == Uniform(), "selection", policy.selection, text)


def setting_of(
    laws: Sequence[ClassLaw], selected: int, rule: Rule, form: Form = "corrected"
) -> TheorySetting:
    """The setting from the laws of the clients' step counts.

    >>> import numpy as np
    >>> laws = [ClassLaw(np.arange(3), StepCount(np.array([0.0, 1.0])))]
    >>> setting_of(laws, 2, "stochastic")
    TheorySetting(clients=3, selected=2, local_steps=1, mean_a=2.0, b=1.0)
    """
    most = max(law.local_steps for _, law in laws)
    each = [(len(members), coefficients(law, rule, form, most)) for members, law in laws]
    clients = sum(count for count, _ in each)
    return TheorySetting(
        clients=clients,
        selected=selected,
        local_steps=most,
        mean_a=sum(count * terms.a for count, terms in each) / clients,
        b=max(terms.b for _, terms in each),
    )
