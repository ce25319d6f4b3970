"""Table 1 of the paper: server steps to reach a target, for five methods, printed and corrected.

All rows ignore numerical constants. A time is the number of steps times the mean length of the
method's server step, `favano.theory.server_time`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Literal, TypeAlias

from favano.errors import need
from favano.theory.complexity import Terms, corollary
from favano.theory.problem import PaperForm, Problem, Setting, check_target

Method: TypeAlias = Literal["fedavg", "fedbuff", "asyncsgd", "quafl", "favano"]


@dataclass(frozen=True, kw_only=True)
class Delays:
    """What the rows of other methods depend on: staleness in server steps, and QuAFL's E."""

    largest: float = 0.0  # tau_max
    average: float = 0.0  # tau_avg
    common_steps: float = 1.0  # E, the expected number of local steps that all clients share

    def __post_init__(self) -> None:
        need(self.largest >= 0, "largest", self.largest, "need a number >= 0")
        need(self.average >= 0, "average", self.average, "need a number >= 0")
        need(self.common_steps > 0, "common_steps", self.common_steps, "need a positive number")


def table_complexity(
    method: Method,
    setting: Setting,
    problem: Problem,
    target: float,
    *,
    delays: Delays | None = None,
    form: PaperForm = "corrected",
) -> Terms:
    """One row of Table 1.

    `printed` and `corrected` differ for FedAvg, AsyncSGD and FAVANO, whose printed rows add terms
    of different units (docs/errata.md, 14 to 16).

    >>> unit = Setting(clients=4, selected=2, local_steps=1, mean_a=1.0, b=1.0)
    >>> table_complexity("fedbuff", unit, Problem(), 1.0).second
    2.0
    """
    check_target(target)
    need(method in _ROWS, "method", method, f"need one of {', '.join(_ROWS)}")
    row = _ROWS[method](setting, problem, delays or Delays(), form)  # at a target of 1
    return Terms(row.second / target**2, row.middle / target**1.5, row.first / target)


def _fedavg(setting: Setting, problem: Problem, delays: Delays, form: PaperForm) -> Terms:
    """F L (sigma^2 + (1-s/n) K G^2) / (s K), F L G, F L B^2."""
    s, steps, scale = setting.selected, setting.local_steps, problem.gap * problem.smoothness
    sampling = (1 - s / setting.clients) * steps * problem.dissimilarity**2
    if form == "printed":
        second = (scale * problem.noise**2 + sampling) / (s * steps)
        middle = problem.gap * sqrt(problem.smoothness) * problem.dissimilarity
    else:
        second = scale * (problem.noise**2 + sampling) / (s * steps)
        middle = scale * problem.dissimilarity
    return Terms(second, middle, scale * problem.growth**2)


def _fedbuff(setting: Setting, problem: Problem, delays: Delays, form: PaperForm) -> Terms:
    """F L (sigma^2 + G^2), F L ((tau_max^2/s^2 + 1)(sigma^2 + n G^2))^(1/2), F L."""
    scale, sigma2, g2 = problem.gap * problem.smoothness, problem.noise**2, problem.dissimilarity**2
    delay = (delays.largest / setting.selected) ** 2 + 1
    middle = scale * sqrt(delay * (sigma2 + setting.clients * g2))
    return Terms(scale * (sigma2 + g2), middle, scale)


def _asyncsgd(setting: Setting, problem: Problem, delays: Delays, form: PaperForm) -> Terms:
    """F L (3 sigma^2 + 4 G^2), F L G (s tau_avg)^(1/2), F L (s tau_max)^(1/2)."""
    scale, s = problem.gap * problem.smoothness, setting.selected
    second = scale * (3 * problem.noise**2 + 4 * problem.dissimilarity**2)
    middle = scale * problem.dissimilarity * sqrt(s * delays.average)
    if form == "printed":
        return Terms(second, middle, sqrt(s * delays.largest * problem.gap))
    return Terms(second, middle, scale * sqrt(s * delays.largest))


def _quafl(setting: Setting, problem: Problem, delays: Delays, form: PaperForm) -> Terms:
    """F L K (sigma^2 + 2 K G^2) / E^2, n^(3/2) F K L (sigma^2 + 2 K G^2)^(1/2) / (E (E s)^(1/2)),
    n^(3/2) F B K^2 L / (E s^(1/2))."""
    scale, steps = problem.gap * problem.smoothness, setting.local_steps
    common, level = delays.common_steps, problem.noise**2 + 2 * steps * problem.dissimilarity**2
    size = setting.clients**1.5
    return Terms(
        scale * steps * level / common**2,
        size / (common * sqrt(common * setting.selected)) * scale * steps * sqrt(level),
        size / (common * sqrt(setting.selected)) * scale * problem.growth * steps**2,
    )


_ROWS: Mapping[str, Callable[[Setting, Problem, Delays, PaperForm], Terms]] = {
    "fedavg": _fedavg,
    "fedbuff": _fedbuff,
    "asyncsgd": _asyncsgd,
    "quafl": _quafl,
    "favano": lambda setting, problem, _, form: corollary(setting, problem, 1.0, form),
}
