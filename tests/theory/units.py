"""Units: every formula must scale as its value does when f and x are measured in other units."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import strategies as st

from favano.theory import TheoryProblem, TheorySetting

PROBLEMS = st.builds(
    TheoryProblem,
    smoothness=st.floats(0.1, 10),
    noise=st.floats(0.1, 5),
    dissimilarity=st.floats(0.1, 5),
    growth=st.floats(1, 3),
    gap=st.floats(0.1, 10),
)


@st.composite
def _settings(draw: st.DrawFn) -> TheorySetting:
    clients = draw(st.integers(1, 200))
    return TheorySetting(
        clients=clients,
        selected=draw(st.integers(1, clients)),
        local_steps=draw(st.integers(1, 30)),
        mean_a=draw(st.floats(0.01, 3)),
        b=draw(st.floats(1, 5)),
    )


SETTINGS = _settings()


def in_other_units(problem: TheoryProblem, f: float, x: float) -> TheoryProblem:
    """The same problem with f measured in units of 1/f and x in units of 1/x."""
    return TheoryProblem(
        smoothness=problem.smoothness * f / x**2,
        noise=problem.noise * f / x,
        dissimilarity=problem.dissimilarity * f / x,
        growth=problem.growth,
        gap=problem.gap * f,
    )


def has_unit(
    value: Callable[[TheoryProblem, float, float], float],
    problem: TheoryProblem,
    *,
    f: int,
    x: int,
    rate: float = 1e-4,
    target: float = 0.3,
) -> bool:
    """Whether value(problem, rate, target) has the unit [f]^f [x]^x."""
    for by_f, by_x in ((3.0, 1.0), (1.0, 5.0), (0.2, 0.7)):
        other = in_other_units(problem, by_f, by_x)
        new = value(other, rate * by_x**2 / by_f, target * by_f**2 / by_x**2)
        old = value(problem, rate, target) * by_f**f * by_x**x
        if not np.isclose(new, old, rtol=1e-9, atol=0):
            return False
    return True
