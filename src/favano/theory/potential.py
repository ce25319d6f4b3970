"""The potential Phi_t, the squared distance of the models from their mean, and its contraction.

mu_t = (w_t + sum_i w_t^i) / (n + 1),     Phi_t = ||w_t - mu_t||^2 + sum_i ||w_t^i - mu_t||^2
E Phi_{t+1} <= (1 - kappa) E Phi_t + 3 (s^2/n) eta^2 sum_i E ||h_i||^2              (Lemma 1)
"""

from __future__ import annotations

import numpy as np

from favano.policies.policy import check_selected
from favano.theory.problem import PaperForm, TheoryProblem, TheorySetting, check_rate
from favano.types import Floats


def mean_model(server: Floats, clients: Floats) -> Floats:
    """mu, the mean of the server model (d,) and the n client models (n, d) (equation (5)).

    >>> mean_model(np.array([3.0]), np.array([[0.0], [0.0]])).tolist()
    [1.0]
    """
    return np.asarray((server + clients.sum(axis=0)) / (len(clients) + 1))


def potential(server: Floats, clients: Floats) -> float:
    """Phi for a server model (d,) and n client models (n, d) (Section 4).

    >>> potential(np.array([3.0]), np.array([[0.0], [0.0]]))
    6.0
    """
    mean = mean_model(server, clients)
    return float(((server - mean) ** 2).sum() + ((clients - mean) ** 2).sum())


def kappa(clients: int, selected: int, form: PaperForm = "corrected") -> float:
    """The contraction of Lemma 1: s/(n(s+1)) (1/2 + n(s-1)/(n-1)), printed s(n-s)/(2n(n+1)(s+1)).

    The printed one drops the distances between the selected clients; it also holds, but is 0 at
    s = n, where all models become one. Without gradients the 1/2 is 1 (errata, 6).

    >>> kappa(100, 20, "printed") < 0.004, round(kappa(100, 20), 4), kappa(100, 100, "printed")
    (True, 0.1875, 0.0)
    """
    check_selected(selected, clients)
    share = selected / (clients * (selected + 1))
    if form == "printed":
        return share * (clients - selected) / (2 * (clients + 1))
    pairs = (selected - 1) / (clients - 1) if clients > 1 else 1.0
    return share * (0.5 + clients * pairs)


def contraction(
    setting: TheorySetting, problem: TheoryProblem, rate: float, form: PaperForm = "corrected"
) -> float:
    """rho = kappa - 48 (s^2/n) L^2 b eta^2: the contraction less the part due to the gradients.

    The paper replaces rho by 1/(5n) (Lemma "potential"), which needs eta <= `contraction_limit`.

    >>> example = TheorySetting(clients=100, selected=20, local_steps=20, mean_a=0.34, b=1.35)
    >>> round(contraction(example, TheoryProblem(), rate=1e-4), 4)
    0.1875
    """
    check_rate(rate)
    lost = 48 * setting.selected**2 / setting.clients
    lost *= problem.smoothness**2 * setting.b * rate**2
    return kappa(setting.clients, setting.selected, form) - lost


def contraction_limit(
    setting: TheorySetting, problem: TheoryProblem, form: PaperForm = "corrected"
) -> float:
    """The largest eta with rho >= 1/(5n); 0 if there is none, as for s = n and printed kappa.

    >>> example = TheorySetting(clients=100, selected=100, local_steps=20, mean_a=0.34, b=1.35)
    >>> contraction_limit(example, TheoryProblem(), "printed")
    0.0
    """
    spare = setting.clients * kappa(setting.clients, setting.selected, form) - 0.2
    scale = 48 * setting.selected**2 * problem.smoothness**2 * setting.b
    return float(np.sqrt(max(spare, 0.0) / scale))


def next_potential(
    setting: TheorySetting,
    problem: TheoryProblem,
    rate: float,
    *,
    potential: float,
    gradient: float,
    form: PaperForm = "corrected",
) -> float:
    """Bound on E Phi_{t+1} from E Phi_t and E ||grad f(mu_t)||^2 (Lemma "potential").

        (1 - rho) Phi + 3 s^2 eta^2 (sigma^2 a + 8 b G^2) + 24 B^2 s^2 b eta^2 ||grad f||^2

    The printed statement has 1/(5n) for rho and no sigma^2 before a (errata, 7 and 8).

    >>> example = TheorySetting(clients=10, selected=2, local_steps=1, mean_a=1.0, b=1.0)
    >>> round(next_potential(example, TheoryProblem(), 0.01, potential=0.0, gradient=0.0), 6)
    0.0108
    """
    rho = contraction(setting, problem, rate)
    level = noise_level(setting, problem)
    if form == "printed":
        rho = 1 / (5 * setting.clients)
        level = setting.mean_a + 8 * setting.b * problem.dissimilarity**2
    step = setting.selected**2 * rate**2
    correction = 24 * problem.growth**2 * step * setting.b * gradient
    return (1 - rho) * potential + 3 * step * level + correction


def noise_level(setting: TheorySetting, problem: TheoryProblem) -> float:
    """sigma^2 (1/n) sum_i a_i + 8 b G^2, a factor of every term of the bound but the first.

    >>> pair = TheorySetting(clients=2, selected=1, local_steps=1, mean_a=0.5, b=1.0)
    >>> noise_level(pair, TheoryProblem())
    8.5
    """
    return problem.noise**2 * setting.mean_a + 8 * setting.b * problem.dissimilarity**2
