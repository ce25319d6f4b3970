"""Table 1 of the paper: server steps to reach a target, for five methods, printed and corrected.

All rows ignore numerical constants. A time is the number of steps times the mean length of the
method's server step, `favano.theory.server_time`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Literal, TypeAlias, get_args

from favano.errors import require
from favano.theory.complexity import ComplexityTerms, corollary
from favano.theory.problem import PaperForm, TheoryProblem, TheorySetting, check_target

Method: TypeAlias = Literal["fedavg", "fedbuff", "asyncsgd", "quafl", "favano"]
"""The methods of Table 1."""


@dataclass(frozen=True, kw_only=True)
class Delays:
    """What the rows of other methods depend on: staleness in server steps, and QuAFL's E."""

    largest: float = 0.0  # tau_max
    average: float = 0.0  # tau_avg
    common_steps: float = 1.0  # E, the expected number of local steps that all clients share

    def __post_init__(self) -> None:
        require(self.largest >= 0, "largest", self.largest, "need a number >= 0")
        require(self.average >= 0, "average", self.average, "need a number >= 0")
        require(self.common_steps > 0, "common_steps", self.common_steps, "need a positive number")


def table_complexity(
    method: Method,
    setting: TheorySetting,
    problem: TheoryProblem,
    target: float,
    *,
    delays: Delays | None = None,
    form: PaperForm = "corrected",
) -> ComplexityTerms:
    """One row of Table 1.

    `printed` and `corrected` differ for FedAvg, AsyncSGD and FAVANO, whose printed rows add terms
    of different units or do not follow from the proof (errata, 14 to 16).

    >>> unit = TheorySetting(clients=4, selected=2, local_steps=1, mean_a=1.0, b=1.0)
    >>> table_complexity("fedbuff", unit, TheoryProblem(), 1.0).second
    2.0
    """
    check_target(target)
    require(
        method in get_args(Method), "method", method, f"need one of {', '.join(get_args(Method))}"
    )
    n, s, steps, printed = setting.clients, setting.selected, setting.local_steps, form == "printed"
    gap, scale, wait = problem.gap, problem.gap * problem.smoothness, delays or Delays()
    sigma2, g, growth = problem.noise**2, problem.dissimilarity, problem.growth
    match method:  # rows at a target of 1
        case "fedavg":  # F L (sigma^2 + (1-s/n) K G^2) / (s K), F L G, F L B^2
            sampling = (1 - s / n) * steps * g**2
            second = scale * sigma2 + sampling if printed else scale * (sigma2 + sampling)
            middle = gap * sqrt(problem.smoothness) * g if printed else scale * g
            row = ComplexityTerms(second / (s * steps), middle, scale * growth**2)
        case (
            "fedbuff"
        ):  # F L (sigma^2 + G^2), F L ((tau_max^2/s^2 + 1)(sigma^2 + n G^2))^(1/2), F L
            delay = (wait.largest / s) ** 2 + 1
            row = ComplexityTerms(
                scale * (sigma2 + g**2), scale * sqrt(delay * (sigma2 + n * g**2)), scale
            )
        case "asyncsgd":  # F L (3 sigma^2 + 4 G^2), F L G (s tau_avg)^(1/2), F L (s tau_max)^(1/2)
            last = sqrt(s * wait.largest * gap) if printed else scale * sqrt(s * wait.largest)
            row = ComplexityTerms(
                scale * (3 * sigma2 + 4 * g**2), scale * g * sqrt(s * wait.average), last
            )
        case "quafl":
            # F L K (sigma^2 + 2 K G^2) / E^2, n^(3/2) F B K^2 L / (E s^(1/2)), and between them
            # n^(3/2) F K L (sigma^2 + 2 K G^2)^(1/2) / (E (E s)^(1/2))
            common, level, size = wait.common_steps, sigma2 + 2 * steps * g**2, n**1.5
            middle = size / (common * sqrt(common * s)) * scale * steps * sqrt(level)
            first = size / (common * sqrt(s)) * scale * growth * steps**2
            row = ComplexityTerms(scale * steps * level / common**2, middle, first)
        case "favano":
            row = corollary(setting, problem, 1.0, form)
    return ComplexityTerms(row.second / target**2, row.middle / target**1.5, row.first / target)
