"""The potential lemma by exact enumeration of all subsets, and where its constants hold."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from favano.errors import BadInput
from favano.theory import (
    TheoryProblem,
    TheorySetting,
    contraction,
    contraction_limit,
    kappa,
    mean_model,
    next_potential,
    potential,
)
from favano.theory.problem import PaperForm
from tests.theory.units import has_unit


@pytest.mark.parametrize(
    ("clients", "selected"), [(1, 1), (3, 3), (6, 1), (6, 2), (6, 3), (6, 5), (6, 6), (8, 4)]
)
def test_the_lemma_by_enumeration(clients: int, selected: int) -> None:
    """E Phi' <= (1 - kappa) Phi + 3 (s^2/n) eta^2 sum ||h||^2, exactly, for random models."""
    generator = np.random.default_rng(clients * 10 + selected)
    eta = 0.3
    for _ in range(40):
        server = generator.normal(size=3) * generator.exponential()
        own = generator.normal(size=(clients, 3)) * generator.exponential()
        progress = generator.normal(size=(clients, 3)) * generator.choice([0, 0.1, 1, 10])
        progress += generator.normal(size=3) * generator.choice([0, 3])
        before, mean = potential(server, own), mean_model(server, own)
        after = []
        for chosen in map(list, combinations(range(clients), selected)):
            message = own[chosen] - eta * progress[chosen]
            new = (server + message.sum(axis=0)) / (selected + 1)
            models = own.copy()
            models[chosen] = new
            moved = mean_model(new, models) - mean
            expected = -eta / (clients + 1) * progress[chosen].sum(axis=0)
            assert moved == pytest.approx(expected, abs=1e-12)
            after.append(potential(new, models))
        added = selected**2 / clients * eta**2 * (progress**2).sum()
        forms: tuple[PaperForm, ...] = ("printed", "corrected")
        for form in forms:
            limit = (1 - kappa(clients, selected, form)) * before
            assert np.mean(after) <= limit + 3 * added + 1e-12
        assert np.mean(after) <= limit + 2.5 * added + 1e-12  # so 3 has room


def test_pairs_are_counted_once() -> None:
    """The vector identity of the appendix needs i < j; over all ordered pairs it is doubled."""
    generator = np.random.default_rng(0)
    a, b, s = generator.normal(size=(5, 3)), generator.normal(size=3), 5
    left = (((a.sum(0) + b) / (s + 1)) ** 2).sum() - ((a**2).sum() + (b**2).sum()) / (s + 1)
    once = sum(((a[i] - a[j]) ** 2).sum() for i, j in combinations(range(s), 2))
    with_b = ((a - b) ** 2).sum()
    assert left == pytest.approx(-(with_b + once) / (s + 1) ** 2)
    assert left != pytest.approx(-(with_b + 2 * once) / (s + 1) ** 2)


def test_kappa() -> None:
    assert kappa(100, 20) == pytest.approx(20 / (100 * 21) * (0.5 + 100 * 19 / 99))
    assert kappa(100, 1) == pytest.approx(1 / 400)
    assert kappa(100, 20, "printed") == pytest.approx(20 * 80 / (2 * 100 * 101 * 21))
    assert kappa(100, 100, "printed") == 0
    with pytest.raises(BadInput, match=r"selected=11: need 1..clients \(10\)"):
        kappa(10, 11)


@pytest.mark.parametrize(("clients", "selected"), [(2, 1), (6, 1), (6, 2), (6, 5), (6, 6)])
def test_kappa_is_sharp_up_to_the_half_that_pays_for_the_gradients(
    clients: int, selected: int
) -> None:
    """Without gradients, by enumeration, for server and clients whose mean is 0 (the worst)."""
    generator = np.random.default_rng(clients)
    for centred in (True, False):
        server, own = generator.normal(size=2), generator.normal(size=(clients, 2))
        if centred:
            server, own = np.zeros(2), own - own.mean(axis=0)
        after = []
        for chosen in map(list, combinations(range(clients), selected)):
            models = own.copy()
            models[chosen] = new = (server + own[chosen].sum(axis=0)) / (selected + 1)
            after.append(potential(new, models))
        contraction = 1 - np.mean(after) / potential(server, own)
        spent = selected / (2 * clients * (selected + 1))
        if centred:
            assert contraction == pytest.approx(kappa(clients, selected) + spent)
        assert contraction >= kappa(clients, selected) + spent - 1e-12


@pytest.mark.parametrize(("b", "last"), [(1.0, 33), (1.35, 40)])
def test_where_the_papers_contraction_is_justified(b: float, last: int) -> None:
    """rho >= 1/(5n) at the lemma's eta = 1/(20 s L b): with the printed kappa for few s only."""
    good: dict[str, list[int]] = {"printed": [], "corrected": []}
    for s in range(1, 101):
        where = TheorySetting(clients=100, selected=s, local_steps=1, mean_a=1.0, b=b)
        for form in ("printed", "corrected"):
            rho = contraction(where, TheoryProblem(), 1 / (20 * s * b), form)
            if rho >= 1 / 500 - 1e-15:
                good[form].append(s)
    assert good["printed"] == list(range(2, last + 1))
    assert good["corrected"] == list(range(2, 101))


def test_where_it_is_justified_at_the_rate_of_the_theorem() -> None:
    """At eta = 1/(20 B^2 b K L s) the printed kappa does for s = 1..58, of 100 clients."""
    good = []
    for s in range(1, 101):
        where = TheorySetting(clients=100, selected=s, local_steps=20, mean_a=1.0, b=1.0)
        if contraction(where, TheoryProblem(), 1 / (20 * 20 * s), "printed") >= 1 / 500:
            good.append(s)
    assert good == list(range(1, 59))


def test_the_limit_is_where_the_contraction_is_a_fifth() -> None:
    where, problem = (
        TheorySetting(clients=40, selected=9, local_steps=3, mean_a=1.0, b=1.7),
        TheoryProblem(),
    )
    limit = contraction_limit(where, problem)
    assert contraction(where, problem, limit) == pytest.approx(1 / (5 * 40))
    assert contraction_limit(where, problem, "printed") < limit


def test_units() -> None:
    where, problem = (
        TheorySetting(clients=40, selected=9, local_steps=3, mean_a=0.6, b=1.7),
        TheoryProblem(),
    )
    assert has_unit(lambda p, rate, target: contraction(where, p, rate), problem, f=0, x=0)
    assert has_unit(lambda p, rate, target: contraction_limit(where, p), problem, f=-1, x=2)
    assert has_unit(
        lambda p, rate, target: next_potential(
            where, p, rate, potential=0.0, gradient=target
        ),
        problem, f=0, x=2,
    )  # fmt: skip


def test_the_printed_statement_misses_the_unit_of_the_noise() -> None:
    where = TheorySetting(clients=40, selected=9, local_steps=3, mean_a=0.6, b=1.7)
    assert not has_unit(
        lambda p, rate, target: next_potential(
            where, p, rate, potential=0.0, gradient=target, form="printed"
        ),
        TheoryProblem(), f=0, x=2,
    )  # fmt: skip
    quiet = TheoryProblem(noise=1.0)  # where sigma = 1 it does not show
    printed = next_potential(where, quiet, 1e-6, potential=0.0, gradient=2.0, form="printed")
    right = next_potential(where, quiet, 1e-6, potential=0.0, gradient=2.0)
    assert printed == pytest.approx(right)
