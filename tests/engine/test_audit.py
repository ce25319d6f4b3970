"""Effective weights: FAVANO is fair, arrival order is not, and the numbers are exact."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from favano.algorithms import AsyncSGD, Favano, FedAvg, Known
from favano.engine import effective_weights
from favano.schedule import Arrival, Barrier, Poll, plan
from favano.theory import expected_counts
from favano.timing import two_speeds
from tests.problems import Linear, server_models


def test_equal_what_linear_losses_measure() -> None:
    """Independently: give one client a slope, the others none, and see how far the model moves."""
    fleet = two_speeds(8, seed=1)
    policy = Poll(selected=3, local_steps=4)
    algorithm = Favano(policy=policy, weights=Known(*expected_counts(policy, fleet)))
    schedule = plan(policy, fleet, horizon=300, seed=1)
    weight = effective_weights(algorithm, schedule)
    moved = []
    for client in range(8):
        slope = torch.zeros(8, 1, dtype=torch.float64)
        slope[client] = -1.0
        final = server_models(
            algorithm, schedule, Linear(slope), torch.zeros(1, dtype=torch.float64), rate=1.0
        )[-1]
        moved.append(float(final))
    assert weight == pytest.approx(np.array(moved) / sum(moved), abs=1e-12)
    assert weight.sum() == pytest.approx(1)


def test_favano_is_fair_and_plain_averaging_of_arrivals_is_not() -> None:
    fleet = two_speeds(60, seed=2)
    slow = fleet.mean == 16
    policy = Poll(selected=12, local_steps=20)
    schedule = plan(policy, fleet, horizon=7 * 3000, seed=2)
    fair = Favano(policy=policy, weights=Known(*expected_counts(policy, fleet)))
    share = effective_weights(fair, schedule)[slow].sum()
    assert share == pytest.approx(slow.mean(), abs=0.02)
    raw = Favano(policy=policy, weights=Known(np.ones(60), np.ones(60)), reweight="none")
    assert effective_weights(raw, schedule)[slow].sum() < 0.12
    arrival = Arrival(buffer=1, local_steps=1, hand_out="flush", latency="none")
    asynchronous = AsyncSGD(policy=arrival, concurrency=60)
    biased = effective_weights(asynchronous, plan(arrival, fleet, horizon=300, seed=2))
    assert biased[slow].sum() < 0.1


def test_fedavg_counts_participation() -> None:
    fleet = two_speeds(6, seed=0)
    policy = Barrier(selected=2, local_steps=3)
    schedule = plan(policy, fleet, horizon=3000, seed=0)
    contacts = np.bincount(schedule.client[: schedule.jobs], minlength=6)
    weight = effective_weights(FedAvg(policy=policy), schedule)
    assert weight == pytest.approx(contacts / contacts.sum())
