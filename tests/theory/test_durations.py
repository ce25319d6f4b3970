"""How long steps take: closed forms against the grid, draws, and laws of the user's own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from favano.errors import BadInput
from favano.policies import Polling
from favano.theory import finished, step_count
from favano.timing import Deterministic, Exponential, Geometric, LogNormal, StepLaw, Trace
from favano.types import Floats, Ints

TIMES = np.array([1.0, 3.0, 7.0, 20.0, 60.0])


@dataclass(frozen=True)
class OwnExponential:
    """A law that theory knows only by its distribution function."""

    def check(self, mean: Floats) -> None:
        pass

    def draw(self, seed: int, client: Ints, index: Ints, mean: Floats) -> Floats:
        return Exponential().draw(seed, client, index, mean)

    def cumulative(self, duration: Floats, mean: float) -> Floats:
        return np.asarray(-np.expm1(-duration / mean))


@dataclass(frozen=True)
class Pareto:
    """P(D > x) = (1 + x)^(-shape): without a finite mean if shape <= 1."""

    shape: float

    def check(self, mean: Floats) -> None:
        pass

    def draw(self, seed: int, client: Ints, index: Ints, mean: Floats) -> Floats:
        raise NotImplementedError

    def cumulative(self, duration: Floats, mean: float) -> Floats:
        return np.asarray(1 - (1 + duration) ** -self.shape)


class Unknown:
    """A law without a distribution function."""

    def check(self, mean: Floats) -> None:
        pass

    def draw(self, seed: int, client: Ints, index: Ints, mean: Floats) -> Floats:
        raise NotImplementedError

    def __repr__(self) -> str:
        return "Unknown()"


@pytest.mark.parametrize(
    "law", [Geometric(), Exponential(), Deterministic(), LogNormal(0.8), LogNormal(2.0)]
)
def test_sums_of_drawn_durations(law: StepLaw) -> None:
    """Within four standard errors, for every time and number of steps."""
    clients, steps, mean = 40_000, 5, 4.0
    client, index = np.arange(clients)[:, None], np.arange(steps)
    ends = np.cumsum(law.draw(3, client, index, np.full((clients, 1), mean)), axis=1)
    chances = finished(law, mean, TIMES, steps, cell=0.01)
    drawn = (ends[None] <= TIMES[:, None, None]).mean(axis=1)
    error = np.sqrt(chances * (1 - chances) / clients)
    assert (np.abs(drawn - chances) <= 4 * error + 1e-4).all()


def test_a_law_of_ones_own_by_its_distribution_function() -> None:
    exact = finished(Exponential(), 3.0, TIMES, 4, cell=0.01)
    assert finished(OwnExponential(), 3.0, TIMES, 4, cell=0.005) == pytest.approx(exact, abs=2e-5)
    policy = Polling(selected=20, local_steps=20)
    for mean in (2.0, 16.0):
        own = step_count(policy, clients=100, law=OwnExponential(), mean=mean)
        known = step_count(policy, clients=100, law=Exponential(), mean=mean)
        assert own.pmf == pytest.approx(known.pmf, abs=1e-5)


def test_ties_on_a_grid_of_whole_numbers() -> None:
    trace = Trace((np.array([2.0]),))
    time = np.array([2.0, 3.0, 4.0])
    assert finished(trace, 2.0, time, 2, cell=1.0)[:, 1].round(9).tolist() == [0, 0, 1]
    strict = finished(trace, 2.0, time, 2, strict=True, cell=1.0)
    assert strict[:, 0].round(9).tolist() == [0, 1, 1]
    same = finished(Deterministic(), 2.0, time, 2, strict=True, cell=1.0)
    assert same == pytest.approx(strict, abs=1e-12)


def test_laws_without_a_finite_mean_are_refused() -> None:
    with pytest.raises(BadInput, match=r"step_law=Pareto\(shape=1.0\): .* the finite mean"):
        finished(Pareto(1.0), 2.0, TIMES, 2, cell=0.01)
    finished(Pareto(3.0), 0.5, TIMES, 2, cell=0.01)  # E[D] = 1 / (shape - 1)
    with pytest.raises(BadInput, match="does not have the finite mean 2"):
        finished(Pareto(3.0), 2.0, TIMES, 2, cell=0.01)


def test_laws_nobody_knows_are_refused() -> None:
    with pytest.raises(BadInput, match=r"step_law=Unknown\(\): has no cumulative"):
        finished(Unknown(), 2.0, TIMES, 2, cell=0.01)
    with pytest.raises(BadInput, match="local_steps=0: need at least 1"):
        finished(Geometric(), 2.0, TIMES, 0, cell=0.01)


def test_the_grid_ends_where_nothing_is_left_and_no_sooner() -> None:
    """Far times are 1 without a grid that reaches them, also for steps with a heavy tail."""
    far = np.array([7.0, 70.0, 7e3, 7e5])
    for spread in (0.3, 1.0, 2.0):
        chances = finished(LogNormal(spread), 2.0, far, 4, cell=0.02)
        near = finished(LogNormal(spread), 2.0, far[:2], 4, cell=0.02)
        assert chances[:2] == pytest.approx(near, abs=1e-9)
        assert chances[-1] == pytest.approx(np.ones(4), abs=1e-6)
        assert (np.diff(chances, axis=0) >= -1e-12).all()
        assert (np.diff(chances, axis=1) <= 1e-12).all()


def test_a_finer_grid_changes_little() -> None:
    policy = Polling(selected=20, local_steps=20)
    for spread in (0.1, 1.0):
        usual, fine = (
            step_count(policy, clients=100, law=LogNormal(spread), mean=16.0, resolution=cells)
            for cells in (256, 1024)
        )
        assert usual.pmf == pytest.approx(fine.pmf, abs=1e-5)
