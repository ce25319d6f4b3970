"""Shares, intervals and verdicts, from numbers worked out by hand and from many schedules."""

from __future__ import annotations

import numpy as np
import pytest

from favano.errors import BadInput
from favano.theory import ShareEstimate, shares, verdict

TWO = np.array([1, 1])  # clients in each group
T = 0.702722  # quantile of the t distribution with nine degrees of freedom at 75 %


def test_an_interval_by_hand() -> None:
    """Ten blocks: r = 5/8, residuals 3 - 2.5 and 2 - 2.5, error sqrt(10/9 * 2.5) / 40 = 1/24."""
    blocks = np.tile([[3.0, 1.0], [2.0, 2.0]], (5, 1))
    fast, slow = shares(np.array([0.625, 0.375]), blocks, TWO, ["fast", "slow"], confidence=0.5)
    assert (fast.weight, slow.weight) == (0.625, 0.375)
    assert (fast.low, fast.high) == pytest.approx((0.625 - T / 24, 0.625 + T / 24))
    assert (slow.low, slow.high) == pytest.approx((0.375 - T / 24, 0.375 + T / 24))
    assert fast.favoured
    assert not slow.favoured


def test_models_that_differ_along_the_schedule_widen_an_interval() -> None:
    """Shares 0.3 and 0.7 in two models: a deviation of sqrt(0.08), more than the 1/24 by hand."""
    blocks, late = np.tile([[3.0, 1.0], [2.0, 2.0]], (5, 1)), np.array([[0.3, 0.7], [0.7, 0.3]])
    share = np.array([0.625, 0.375])
    fast, _ = shares(share, blocks, TWO, ["fast", "slow"], late, confidence=0.5)
    assert fast.low == pytest.approx(0.625 - T * np.sqrt(0.08))
    fast, _ = shares(share, blocks, TWO, ["fast", "slow"], 0.5 + late / 100, confidence=0.5)
    assert fast.low == pytest.approx(0.625 - T / 24)


def test_stretches_of_the_schedule() -> None:
    """Forty updates in twenty stretches of two: within one, order does not count."""
    moved = np.tile([[2.0, 0.0], [0.0, 2.0]], (20, 1))
    fast, _ = shares(np.array([0.5, 0.5]), moved, TWO, ["fast", "slow"])
    assert (fast.low, fast.high) == pytest.approx((0.5, 0.5))


def test_intervals_cover_the_true_share() -> None:
    """99 % intervals of 400 independent schedules miss it in about 4; 15 would be absurd."""
    generator = np.random.default_rng(3)
    missed = 0
    for _ in range(400):
        moved = np.stack([generator.gamma(4, size=100), generator.gamma(6, size=100)], axis=1)
        total = moved.sum(axis=0)
        fast, _ = shares(total / total.sum(), moved, np.array([4, 6]), ["fast", "slow"])
        missed += not fast.low <= 0.4 <= fast.high
    assert missed <= 14


@pytest.mark.parametrize("chance", [2e-5, 5e-4, 2e-3, 5e-3])
def test_intervals_of_those_who_are_hardly_ever_heard(chance: float) -> None:
    """200 rounds of ten answers with 0.04, 1, 4 or 10 slow ones: 99 % intervals miss few of 400."""
    generator, missed = np.random.default_rng(7), 0
    for _ in range(400):
        slow = generator.binomial(10, chance, size=200)
        updates = np.stack([10 - slow, slow], axis=1)
        share = updates.sum(axis=0) / 2000
        fast, few = shares(share, updates.astype(float), TWO, ["fast", "slow"], updates=updates)
        assert fast.high - fast.low == pytest.approx(few.high - few.low) != 0
        missed += not few.low <= chance <= few.high
    assert missed <= 14


def test_the_interval_of_no_answer_by_hand() -> None:
    """(1 - p)^100 = 0.005 at p = 0.0516; what newer answers weigh more makes them fewer."""
    updates = np.stack([np.full(20, 5), np.zeros(20, int)], axis=1)
    fast, slow = shares(np.array([1.0, 0.0]), updates * 1.0, TWO, ["a", "b"], updates=updates)
    assert (slow.low, slow.high) == pytest.approx((0.0, 1 - 0.005**0.01))
    assert (fast.low, fast.high) == pytest.approx((0.005**0.01, 1.0))
    newer = updates * np.repeat([1.0, 3.0], 10)[:, None]  # worth 1 / (1/800 + 9/800) = 80
    _, slow = shares(np.array([1.0, 0.0]), newer, TWO, ["a", "b"], updates=updates)
    assert slow.high == pytest.approx(1 - 0.005 ** (1 / 80))


def test_verdicts() -> None:
    blocks = np.tile([[9.0, 1.0]], (20, 1)) + np.arange(20)[:, None] * 0.01
    groups = shares(blocks.sum(0) / blocks.sum(), blocks, TWO, ["fast", "slow"])
    assert verdict(groups).startswith("favours fast clients: 89.")
    assert groups[1].high < groups[1].fair
    equal = shares(np.array([0.5, 0.5]), np.ones((20, 2)), TWO, ["fast", "slow"])
    assert verdict(equal).startswith("shows no significant bias: fast clients have 50.0 %")
    single = shares(np.array([1.0]), np.ones((20, 1)), np.array([7]), ["fast"])
    assert verdict(single) == "has nobody to favour: all clients are equally fast"


def test_those_who_count_too_little_are_named_if_nobody_counts_significantly_more() -> None:
    low = ShareEstimate("slowest tenth", 10, 0.05, 0.04, 0.06, 0.1)
    others = [ShareEstimate(f"part {k}", 10, 0.105, 0.08, 0.13, 0.1) for k in range(9)]
    said = "slights the slowest tenth: 5.0 % of the model [4.0, 6.0] is theirs, fair is 10.0 %"
    assert verdict([*others, low]) == said


def test_the_intervals_of_many_groups_hold_together() -> None:
    """Of 300 schedules of ten equal groups about 3 are called unfair; each alone, 30 would be."""
    generator = np.random.default_rng(5)
    names, judged = [f"class {k}" for k in range(10)], 0
    for _ in range(300):
        moved = generator.gamma(4, size=(100, 10))
        total = moved.sum(axis=0)
        groups = shares(total / total.sum(), moved, np.full(10, 7), names)
        judged += any(not group.low <= 0.1 <= group.high for group in groups)
    assert judged <= 10


@pytest.mark.parametrize("updates", [1, 2, 9])
def test_few_updates_say_nothing(updates: int) -> None:
    """Even if they are all alike."""
    moved = np.tile([[9.0, 1.0]], (updates, 1))
    groups = shares(np.array([0.9, 0.1]), moved, TWO, ["fast", "slow"])
    assert [(group.low, group.high) for group in groups] == [(0.0, 1.0), (0.0, 1.0)]
    assert verdict(groups).startswith("shows too little to judge: fast clients have 90.0 %")


def test_bad_input_is_refused_by_name() -> None:
    with pytest.raises(BadInput, match="confidence=1: need a number between 0 and 1"):
        shares(np.ones(2), np.ones((2, 2)), TWO, ["fast", "slow"], confidence=1)
    with pytest.raises(BadInput, match="need one per group"):
        shares(np.ones(2), np.ones((2, 2)), TWO, ["fast"])
