"""Participation of clients, from a schedule worked out by hand."""

from __future__ import annotations

import numpy as np

from favano.planning.client_weights import speed_names
from favano.planning.participation import describe
from favano.policies import Polling, Rounds
from favano.schedule import plan
from favano.timing import Trace, traced_fleet


def test_one_entry_a_client() -> None:
    fleet = traced_fleet(Trace((np.array([1.0, 2.0]), np.array([3.0, 4.0]))))
    schedule = plan(Rounds(selected=2, local_steps=2), fleet, horizon=15, seed=0)
    entries = describe(schedule, fleet, np.array([0.25, 0.75]))
    assert schedule.updates == 2
    assert entries[1] == {
        "client": 1,
        "speed": "slow",
        "mean_step_time": 3.5,
        "contacts": 2,
        "mean_steps": 2.0,
        "zero_steps": 0,
        "mean_staleness": 0.0,
        "effective_weight": 0.75,
    }


def test_contacts_without_a_step_are_counted() -> None:
    """Polled every 7: one client makes 1, 0, 1, 0 steps, the other 3 each time."""
    fleet = traced_fleet(Trace((np.array([7.0, 8.0]), np.array([2.0]))))
    schedule = plan(Polling(selected=2, local_steps=3), fleet, horizon=28, seed=0)
    entries = describe(schedule, fleet, np.array([0.5, 0.5]))
    assert [entry["contacts"] for entry in entries] == [4, 4]
    assert [entry["mean_steps"] for entry in entries] == [0.5, 3.0]
    assert [entry["zero_steps"] for entry in entries] == [2, 0]


def test_names_of_speeds() -> None:
    assert speed_names(1) == ["fast"]
    assert speed_names(2) == ["fast", "slow"]
    assert speed_names(3)[2] == "class 2"
