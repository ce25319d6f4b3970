"""Every gate refuses what it is for, by name, and lets honest answers pass."""

from __future__ import annotations

import math

import pytest
import torch

from favano.errors import BadInput
from favano.screening import (
    NormGate,
    Refusal,
    finite_rows,
    wrong_job,
    wrong_model,
    wrong_size,
    wrong_steps,
)

START = torch.tensor([1.0, -2.0, 3.0])


def test_a_message_may_have_as_many_bytes_as_an_honest_one() -> None:
    assert wrong_size(100, 100) is None
    assert wrong_size(101, 100) is Refusal.TOO_LARGE


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        (4, None),
        (3, Refusal.REPLAYED),
        (2, Refusal.STALE),
        (5, Refusal.UNKNOWN),
        (-1, Refusal.UNKNOWN),
    ],
)
def test_answers_are_to_open_jobs(job: int, reason: Refusal | None) -> None:
    assert wrong_job(job, open_jobs={4}, given_up={2}, handed_out=5) is reason


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (START + 1, None),
        (START[:2], Refusal.SHAPE),
        (START[None], Refusal.SHAPE),
        (START.double(), Refusal.TYPE),
        (START * math.nan, Refusal.NOT_FINITE),
        (START * math.inf, Refusal.NOT_FINITE),
        (torch.tensor([0.0, -math.inf, math.inf]), Refusal.NOT_FINITE),
    ],
)
def test_models_are_finite_and_like_the_one_handed_out(
    end: torch.Tensor, reason: Refusal | None
) -> None:
    assert wrong_model(START, end) is reason


def test_finite_rows_are_found_whatever_they_add_up_to() -> None:
    most = torch.finfo(torch.float32).max
    models = torch.tensor([[1.0, 2.0], [math.nan, 1.0], [math.inf, -math.inf], [most, most]])
    assert finite_rows(models) == [True, False, False, True]
    assert finite_rows(models[3:]) == [True]
    assert finite_rows(models[:0]) == []


@pytest.mark.parametrize(
    ("steps", "seconds", "reason"),
    [
        (5, 9.0, None),
        (0, 0.0, None),
        (6, 9.0, Refusal.STEPS),  # more than K
        (-1, 9.0, Refusal.STEPS),
        (5, 11.0, Refusal.STEPS),  # longer than since it was called
        (5, 0.0, Refusal.STEPS),  # in no time
        (0, -1.0, Refusal.STEPS),
        (5, math.nan, Refusal.STEPS),
    ],
)
def test_steps_are_possible(steps: int, seconds: float, reason: Refusal | None) -> None:
    assert wrong_steps(steps, 5, seconds, 10.0) is reason


def test_no_client_is_faster_than_the_fastest_step() -> None:
    assert wrong_steps(5, 5, 4.0, 5.0, fastest=1.0) is None
    assert wrong_steps(5, 5, 4.0, 4.9, fastest=1.0) is Refusal.STEPS


def test_no_honest_node_is_refused_for_its_clock() -> None:
    """Clocks drift by less than a thousandth, and a difference of two times is rounded."""
    assert wrong_steps(5, 5, 3600.5, 3600.0) is None
    begin = 100.1
    assert (begin + 3 * 0.7) - begin < 3 * 0.7
    assert wrong_steps(3, 5, 3 * 0.7, (begin + 3 * 0.7) - begin) is None
    assert wrong_steps(5, 5, 3610.0, 3600.0) is Refusal.STEPS


def test_a_fixed_bound_of_the_norm() -> None:
    gate = NormGate(5.0)
    assert gate.judge(5.0) is None
    assert gate.judge(5.1) is Refusal.NORM
    assert gate.judge(float("nan")) is Refusal.NORM
    assert not gate.is_open
    assert NormGate().is_open
    assert NormGate().judge(3e9) is None


def test_a_bound_that_follows_the_norms_of_the_others() -> None:
    gate = NormGate(quantile=0.5, factor=2.0)
    assert not gate.is_open
    for number in range(1, 17):
        assert gate.bound is None
        assert gate.judge(float(number)) is None
    assert gate.bound == 16.0  # twice the median
    assert gate.judge(16.5) is Refusal.NORM
    assert gate.bound == 16.0  # what was refused does not move it
    assert gate.judge(0.0) is None
    assert gate.bound == 16.0  # nor who made no step
    again = NormGate(quantile=0.5, factor=2.0)
    again.restore(gate.seen)
    assert again.bound == gate.bound


def test_bounds_make_sense() -> None:
    with pytest.raises(BadInput, match="quantile=2: need a share"):
        NormGate(quantile=2)
    with pytest.raises(BadInput, match=r"factor=0\.5: need at least 1"):
        NormGate(1.0, factor=0.5)
    with pytest.raises(BadInput, match="norm=0: need a positive norm"):
        NormGate(0)
