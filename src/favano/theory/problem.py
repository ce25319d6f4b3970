"""The constants of the theorem's assumptions, and the setting it is applied to."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Literal, TypeAlias

from favano.errors import require
from favano.policies.policy import check_selected

PaperForm: TypeAlias = Literal["printed", "corrected"]  # of a formula in the paper

SMALLEST, LARGEST = 1e-30, 1e30  # constants; their powers and products stay finite


@dataclass(frozen=True, kw_only=True)
class TheoryProblem:
    """The constants of Assumptions 1 to 4 of the paper.

        f(x) >= f_* ,   F = f(w_0) - f_*
        ||grad f_i(x) - grad f_i(y)|| <= L ||x - y||
        E ||g_i(x) - grad f_i(x)||^2 <= sigma^2
        (1/n) sum_i ||grad f_i(x)||^2 <= G^2 + B^2 ||grad f(x)||^2

    In units phi of f and chi of x: F is phi, L phi/chi^2, sigma and G phi/chi, B has none.

    >>> TheoryProblem(smoothness=-1)
    Traceback (most recent call last):
    favano.errors.BadInput: smoothness=-1: need 1e-30..1e30
    """

    smoothness: float = 1.0  # L
    noise: float = 1.0  # sigma
    dissimilarity: float = 1.0  # G
    growth: float = 1.0  # B
    gap: float = 1.0  # F

    def __post_init__(self) -> None:
        smallest = {"smoothness": SMALLEST, "growth": 1.0}
        for name, value in vars(self).items():
            _need_between(smallest.get(name, 0.0), LARGEST, name, value)


@dataclass(frozen=True, kw_only=True)
class TheorySetting:
    """FAVANO on a fleet: n, s, K, and the coefficients that the clients' speeds give (Theorem 1).

    `mean_a` is (1/n) sum_i a_i and `b` the largest b_i; `theory.setting` computes them.

    >>> TheorySetting(clients=10, selected=20, local_steps=5, mean_a=0.1, b=1.0)
    Traceback (most recent call last):
    favano.errors.BadInput: selected=20: need 1..clients (10)
    """

    clients: int  # n
    selected: int  # s
    local_steps: int  # K
    mean_a: float
    b: float

    def __post_init__(self) -> None:
        require(self.clients >= 1, "clients", self.clients, "need at least 1")
        check_selected(self.selected, self.clients)
        require(self.local_steps >= 1, "local_steps", self.local_steps, "need at least 1")
        good = isfinite(self.mean_a) and self.mean_a >= 0
        require(good, "mean_a", self.mean_a, "need a finite number >= 0")
        require(isfinite(self.b) and self.b > 0, "b", self.b, "need a finite positive number")


def check_rate(rate: float) -> None:
    """Refuse a learning rate eta that is not positive."""
    require(isfinite(rate) and rate > 0, "learning_rate", rate, "need a finite positive number")


def check_rounds(rounds: float) -> None:
    """Refuse a number of server steps T below 1, or one beyond all runs."""
    _need_between(1, LARGEST, "rounds", rounds)


def check_target(target: float) -> None:
    """Refuse a target epsilon for the mean of ||grad f(mu_t)||^2 that nothing can reach."""
    _need_between(SMALLEST, LARGEST, "target", target)


def _need_between(low: float, high: float, name: str, value: float) -> None:
    require(low <= value <= high, name, value, f"need {low:g}..{high:g}".replace("+", ""))
