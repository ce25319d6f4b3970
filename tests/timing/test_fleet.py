"""Fleets: how many are fast, who they are, and renumbering."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from favano.errors import BadInput
from favano.timing import (
    ClientSpeeds,
    Deterministic,
    Trace,
    client_speeds,
    traced_fleet,
    two_speeds,
)


@given(clients=st.integers(1, 300), fraction=st.floats(0, 1), seed=st.integers(0, 99))
def test_two_speeds_counts(clients: int, fraction: float, seed: int) -> None:
    fleet = two_speeds(clients, fast_fraction=fraction, seed=seed)
    assert (fleet.mean == 2.0).sum() == round(fraction * clients)
    assert ((fleet.mean == 2.0) | (fleet.mean == 16.0)).all()


def test_readings_of_the_simulator() -> None:
    for fraction, slow in ((2 / 3, 34), (1 / 9, 89)):
        fleet = two_speeds(100, fast_fraction=fraction, rounding="ceil-slow", order="slow-first")
        assert fleet.mean.tolist() == [16.0] * slow + [2.0] * (100 - slow)


def test_a_whole_number_of_slow_clients_is_not_rounded_up() -> None:
    """(1 - 2/3) 90 is a little more than 30 in floating point."""
    assert (two_speeds(90, rounding="ceil-slow").mean == 16.0).sum() == 30


def test_who_is_slow_depends_on_the_seed() -> None:
    assert (two_speeds(100, seed=0).mean != two_speeds(100, seed=1).mean).any()
    assert (two_speeds(100, seed=0).mean == two_speeds(100, seed=0).mean).all()


def test_groups_are_speeds() -> None:
    assert client_speeds(np.array([16.0, 2.0, 5.0, 2.0])).groups.tolist() == [2, 0, 1, 0]


def test_traced_fleet() -> None:
    fleet = traced_fleet(Trace((np.array([1.0, 3.0]), np.array([4.0]))))
    assert fleet.mean.tolist() == [2.0, 4.0]
    assert fleet.durations(0, np.array([0, 1]), np.array([1, 9])).tolist() == [3.0, 4.0]


def test_bad_fleets_are_refused() -> None:
    with pytest.raises(BadInput, match="clients=0: need at least 1"):
        two_speeds(0)
    with pytest.raises(BadInput, match=r"fast_fraction=1.5: need 0..1"):
        two_speeds(10, fast_fraction=1.5)
    with pytest.raises(BadInput, match="streams=1: need one per client"):
        ClientSpeeds(np.ones(2), Deterministic(), np.arange(1))
