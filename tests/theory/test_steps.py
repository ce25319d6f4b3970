"""The law of the number of local steps, against closed forms, published numbers and draws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from favano.errors import BadInput
from favano.methods.weights import KnownSteps
from favano.policies import Buffered, Polling, Rounds, Windowed
from favano.schedule import plan
from favano.theory import class_laws, expected_counts, step_count
from favano.timing import (
    Deterministic,
    Exponential,
    Geometric,
    LogNormal,
    StepLaw,
    Trace,
    client_speeds,
    traced_fleet,
    two_speeds,
)

# reading: policy, law, then (P(E>0), E[X], E[X^2], E[1/X], P(X=K)) for means 2 and 16
DEFAULT = Polling(selected=20, local_steps=20)
STRICT = Polling(selected=20, local_steps=20, strict_ties=True)
IDLE = Polling(selected=20, local_steps=20, idle_in_interaction=True)
IDLE_STRICT = Polling(selected=20, local_steps=20, idle_in_interaction=True, strict_ties=True)
READINGS: list[tuple[Polling, StepLaw, tuple[float, ...], tuple[float, ...]]] = [
    (DEFAULT, Geometric(), (0.998428, 12.492906, 200.127210, 0.134833, 0.324368),
     (0.740627, 2.186981, 10.640801, 0.408428, 0.000269)),
    (STRICT, Geometric(), (0.996855, 12.150003, 193.918190, 0.149314, 0.314194),
     (0.723335, 2.124498, 10.313405, 0.401458, 0.000260)),
    (IDLE, Geometric(), (0.987421, 11.449569, 181.948635, 0.185980, 0.294792),
     (0.685217, 1.999529, 9.681985, 0.383366, 0.000244)),
    (IDLE_STRICT, Geometric(), (0.974843, 11.092339, 176.209874, 0.204894, 0.285540),
     (0.664232, 1.937044, 9.377960, 0.371987, 0.000237)),
    (DEFAULT, Exponential(), (0.993811, 12.394896, 199.293894, 0.144152, 0.325477),
     (0.732917, 2.186922, 10.774814, 0.401763, 0.000295)),
    (DEFAULT, Deterministic(), (1.000000, 12.379840, 197.257280, 0.130841, 0.327680),
     (0.640000, 1.668934, 6.800603, 0.372722, 0.000044)),
]  # fmt: skip


@pytest.mark.parametrize(("policy", "law", "fast", "slow"), READINGS)
def test_published_numbers(
    policy: Polling, law: StepLaw, fast: tuple[float, ...], slow: tuple[float, ...]
) -> None:
    for mean, expected in ((2.0, fast), (16.0, slow)):
        count = step_count(policy, clients=100, law=law, mean=mean)
        values = (count.p_positive, count.mean, count.second_moment, count.mean_inverse)
        assert (*values, count.pmf[-1]) == pytest.approx(expected, abs=5.01e-7)


@pytest.mark.parametrize(
    ("selected", "fast", "slow"),
    [
        (5, (0.999606, 17.71698, 337.4388), (0.919496, 7.80418, 102.6456)),
        (10, (0.999213, 15.72791, 284.0464), (0.850989, 4.31819, 37.6713)),
        (50, (0.996078, 6.83426, 68.6122), (0.533186, 0.87500, 1.9687)),
        (100, (0.992188, 3.50000, 14.0000), (0.363499, 0.43750, 0.6016)),
    ],
)
def test_other_selection_sizes(
    selected: int, fast: tuple[float, ...], slow: tuple[float, ...]
) -> None:
    policy = Polling(selected=selected, local_steps=20)
    for mean, (p_positive, first, second) in ((2.0, fast), (16.0, slow)):
        count = step_count(policy, clients=100, law=Geometric(), mean=mean)
        assert count.p_positive == pytest.approx(p_positive, abs=5.01e-7)
        assert count.mean == pytest.approx(first, abs=5.01e-6)
        assert count.second_moment == pytest.approx(second, abs=5.01e-5)


def test_literal_reading() -> None:
    expected: dict[str, dict[float, tuple[float, ...]]] = {
        "literal": {2.0: (1, 1.999998, 5.999918), 16.0: (1, 11.599059, 183.533215)},
        "literal-zero": {2.0: (0.5, 0.999999, 2.999959), 16.0: (0.9375, 10.874118, 172.062389)},
    }
    for reading, by_mean in expected.items():
        policy = Polling(selected=20, local_steps=20, step_count=reading)  # type: ignore[arg-type]
        for mean, values in by_mean.items():
            count = step_count(policy, clients=100, law=Geometric(), mean=mean)
            moments = (count.p_positive, count.mean, count.second_moment)
            assert moments == pytest.approx(values, abs=5.01e-7)


@given(
    mean=st.floats(1.01, 40),
    selected=st.integers(1, 50),
    local_steps=st.integers(1, 30),
    idle=st.booleans(),
)
def test_closed_form_of_no_step(mean: float, selected: int, local_steps: int, idle: bool) -> None:
    """P(E = 0) = p (1-lambda)^(-c) x / (1 - (1-p) x), x = (1-lambda)^R."""
    policy = Polling(selected=selected, local_steps=local_steps, idle_in_interaction=idle)
    count = step_count(policy, clients=50, law=Geometric(), mean=mean)
    chance, stay = selected / 50, 1 - 1 / mean
    x = stay**7
    closed = chance * stay ** (-3 if idle else 0) * x / (1 - (1 - chance) * x)
    assert count.pmf[0] == pytest.approx(closed, abs=1e-12)
    assert count.pmf.sum() == pytest.approx(1, abs=1e-12)
    assert (count.pmf >= 0).all()


def test_convolution_equals_closed_forms() -> None:
    """A trace that always lasts 2 is the constant law, ties included, to rounding."""
    for policy in (DEFAULT, STRICT, IDLE):
        trace = Trace((np.array([2.0, 2.0]),))
        by_grid = step_count(policy, clients=100, law=trace, mean=2.0)
        exact = step_count(policy, clients=100, law=Deterministic(), mean=2.0)
        assert by_grid.pmf == pytest.approx(exact.pmf, abs=1e-10)


@pytest.mark.parametrize("law", [Geometric(), Exponential(), Deterministic(), LogNormal(0.8)])
def test_planned_steps_follow_the_law(law: StepLaw) -> None:
    """Chi-square of what the planner produced against the law, for both speeds."""
    fleet = two_speeds(400, law=law, seed=3)
    policy = Polling(selected=80, local_steps=20)
    schedule = plan(policy, fleet, horizon=7 * 600, seed=3)
    used = (schedule.used_by >= 150) & (schedule.used_by < schedule.updates)
    for mean in (2.0, 16.0):
        counted = np.bincount(
            schedule.steps[used & (fleet.mean[schedule.client] == mean)], minlength=21
        )
        pmf = step_count(policy, clients=400, law=law, mean=mean).pmf
        common = pmf * counted.sum() >= 5
        rest = counted.sum() - counted[common].sum()
        expected = pmf[common] * counted.sum()
        observed = counted[common].astype(float)
        if expected.sum() < counted.sum() - 5:
            observed = np.append(observed, rest)
            expected = np.append(expected, counted.sum() - expected.sum())
        statistic = float(((observed - expected) ** 2 / expected).sum())
        if len(observed) > 1:
            assert stats.chi2.sf(statistic, len(observed) - 1) > 1e-3
        assert rest <= max(30, 4 * (1 - pmf[common].sum()) * counted.sum())


def test_kept_durations_have_another_law() -> None:
    """The defect of the public simulator: a long draw survives contact after contact."""
    fleet = client_speeds(np.full(100, 16.0))
    policy = Polling(selected=20, local_steps=20, interruption="keep", strict_ties=True)
    schedule = plan(policy, fleet, horizon=7 * 15_000, seed=1)
    steps = schedule.steps[: schedule.jobs][-200_000:]  # long draws take long to reach their share
    assert (steps > 0).mean() == pytest.approx(0.368, abs=0.01)
    assert steps.mean() == pytest.approx(1.083, abs=0.03)
    with pytest.raises(BadInput, match="interruption=keep: has no exact law"):
        step_count(policy, clients=100, law=Geometric(), mean=16.0)


def test_resuming_a_memoryless_step_changes_nothing_in_law() -> None:
    policy = Polling(selected=80, local_steps=20, interruption="resume")
    fleet = two_speeds(400, seed=2)
    schedule = plan(policy, fleet, horizon=7 * 1000, seed=2)
    law = step_count(policy, clients=400, law=Geometric(), mean=16.0)
    used = slice(0, schedule.jobs)
    steps = schedule.steps[used][fleet.mean[schedule.client[used]] == 16]
    assert steps.mean() == pytest.approx(law.mean, abs=4 * np.sqrt(5.9 / len(steps)))


def test_expected_counts_of_a_fleet() -> None:
    positive, mean = expected_counts(DEFAULT, client_speeds(np.array([2.0] * 50 + [16.0] * 50)))
    assert positive[[0, 99]] == pytest.approx([0.998428, 0.740627], abs=1e-6)
    assert mean[[0, 99]] == pytest.approx([12.492906, 2.186981], abs=1e-6)


@pytest.mark.parametrize(
    ("policy", "fast", "slow"),
    [
        (DEFAULT, 44.0545, 5.8579),
        (STRICT, 46.2956, 5.7999),
        (IDLE, 50.8560, 5.6839),
        (IDLE_STRICT, 53.1699, 5.6258),
    ],
)
def test_published_variances(policy: Polling, fast: float, slow: float) -> None:
    for mean, expected in ((2.0, fast), (16.0, slow)):
        count = step_count(policy, clients=100, law=Geometric(), mean=mean)
        assert count.variance == pytest.approx(expected, abs=5.01e-5)


def test_fewer_steps_allowed_is_the_same_law_capped() -> None:
    for law in (Geometric(), LogNormal(0.7)):
        most = step_count(Polling(selected=3, local_steps=12), clients=20, law=law, mean=4.0)
        for steps in (1, 5, 12):
            policy = Polling(selected=3, local_steps=steps)
            own = step_count(policy, clients=20, law=law, mean=4.0)
            assert most.capped(steps).pmf == pytest.approx(own.pmf, abs=1e-12)
    with pytest.raises(BadInput, match=r"local_steps=13: need 1..K \(12\)"):
        most.capped(13)


def test_in_the_papers_own_law_every_client_makes_a_step() -> None:
    """E geometric with mean 2 or 16 is on {1, 2, ...}: P(E > 0) = 1."""
    policy = Polling(selected=20, local_steps=20, step_count="literal")
    for mean in (2.0, 16.0):
        assert step_count(policy, clients=100, law=Geometric(), mean=mean).p_positive == 1.0
        assert np.random.default_rng(0).geometric(1 / mean, 1000).min() == 1


def test_other_policies_answer_with_all_steps_or_none() -> None:
    arrival = Buffered(buffer=2, local_steps=4, hand_out="idle")
    for policy in (arrival, Windowed(period=5.0, local_steps=4), Rounds(selected=2, local_steps=4)):
        count = step_count(policy, clients=5, law=Geometric(), mean=3.0)
        assert count.pmf.tolist() == [0, 0, 0, 0, 1]


@pytest.mark.parametrize("round_time", ["sum", "one-draw", "mean"])
def test_answers_in_time_for_a_deadline(round_time: str) -> None:
    """The share of client updates in planned rounds, within four standard errors."""
    fleet = client_speeds(np.full(50, 3.0))
    policy = Rounds(
        selected=20,
        local_steps=4,
        deadline=12.0,
        round_time=round_time,  # type: ignore[arg-type]
    )
    chance = step_count(policy, clients=50, law=Geometric(), mean=3.0).p_positive
    schedule = plan(policy, fleet, horizon=20_000, seed=5)
    asked = 20 * schedule.updates
    error = np.sqrt(chance * (1 - chance) / asked)
    assert schedule.jobs / asked == pytest.approx(chance, abs=4 * error + 1e-12)


@pytest.mark.parametrize("round_time", ["sum", "one-draw", "mean"])
def test_steps_made_by_a_deadline_that_takes_them(round_time: str) -> None:
    """Against draws: jobs of 6 steps of geometric length, stopped at time 10."""
    draws, steps = 100_000, 6
    duration = np.random.default_rng(4).geometric(1 / 3, size=(draws, steps)).astype(float)
    if round_time == "one-draw":
        duration[:] = duration[:, :1]
    elif round_time == "mean":
        duration[:] = 3.0
    made = (duration.cumsum(axis=1) <= 10.0).sum(axis=1)
    seen = np.bincount(made, minlength=steps + 1) / draws
    policy = Rounds(
        selected=1, local_steps=steps, deadline=10.0, at_deadline="take",
        round_time=round_time,  # type: ignore[arg-type]
    )  # fmt: skip
    count = step_count(policy, clients=1, law=Geometric(), mean=3.0)
    assert count.pmf == pytest.approx(seen, abs=4 * 0.5 / np.sqrt(draws))


def test_each_client_of_a_trace_has_its_own_law() -> None:
    fleet = traced_fleet(Trace((np.array([1.0, 3.0]), np.array([6.0, 6.0]))))
    fast, slow = class_laws(Polling(selected=1, local_steps=5), fleet)
    assert (fast.members.tolist(), slow.members.tolist()) == ([0], [1])
    alone = step_count(Polling(selected=1, local_steps=5), clients=2, law=Deterministic(), mean=6.0)
    assert slow.law.pmf == pytest.approx(alone.pmf, abs=1e-10)
    assert fast.law.mean > slow.law.mean


@pytest.mark.parametrize("idle", [False, True])
@pytest.mark.parametrize("strict", [False, True])
def test_a_recorded_step_that_no_window_holds(idle: bool, strict: bool) -> None:
    """However long it is, steps up to it are made, and none from it on."""
    policy = Polling(selected=2, local_steps=3, idle_in_interaction=idle, strict_ties=strict)
    laws = [
        class_laws(policy, traced_fleet(Trace((np.array([1.0, long]),) * 3)))[0].law.pmf
        for long in (1e6, 1e12, 9.3e18, 1e300)
    ]
    for law in laws:
        assert law == pytest.approx(laws[0], abs=1e-12)
    assert laws[0][2:] == pytest.approx(0.0, abs=1e-12)


def test_bad_input_is_refused_by_name() -> None:
    policy = Polling(selected=20, local_steps=5)
    with pytest.raises(BadInput, match=r"selected=20: need 1..clients \(10\)"):
        step_count(policy, clients=10, law=Geometric(), mean=2.0)
    for mean in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(BadInput, match=r"step mean=.*: need a finite positive mean step time"):
            step_count(policy, clients=30, law=Exponential(), mean=mean)
    with pytest.raises(BadInput, match="geometric steps need a finite mean >= 1"):
        step_count(policy, clients=30, law=Geometric(), mean=0.5)


@pytest.mark.parametrize(("clients", "selected"), [(3, 2), (5, 1), (7, 3), (20, 7), (100, 20)])
@pytest.mark.parametrize("rows", [[1.0], [1.0, 2.0, 3.0]])
def test_no_chance_is_above_one(clients: int, selected: int, rows: list[float]) -> None:
    """Where every client makes a step in every window, rounding must not make it likelier."""
    fleet = traced_fleet(Trace((np.array(rows),) * clients))
    positive, mean = expected_counts(Polling(selected=selected, local_steps=5), fleet)
    assert positive.max() <= 1.0
    assert positive.min() == pytest.approx(1.0)
    assert mean.max() <= 5.0
    KnownSteps(positive, mean)
