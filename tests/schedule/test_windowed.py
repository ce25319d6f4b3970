"""Fixed windows from scripted durations; a window wider than every job is FedAvg (P11)."""

from __future__ import annotations

import numpy as np

from favano.methods.fedavg import FedAvg
from favano.policies import Buffered, Windowed
from favano.schedule import plan
from favano.timing import Deterministic, Trace, client_speeds, traced_fleet
from tests.methods.bound import bound, scheduled
from tests.problems import close, quadratics, server_models, start_model

FLEET = traced_fleet(Trace((np.array([2.0]), np.array([5.0]), np.array([9.0]))))


def test_what_is_back_at_a_tick_is_used_and_restarts_there() -> None:
    schedule = plan(Windowed(period=4, local_steps=1), FLEET, horizon=17, seed=0)
    assert schedule.time.tolist() == [4.0, 8.0, 12.0, 16.0]
    used = [schedule.client[schedule.used_by == tick].tolist() for tick in range(4)]
    assert used == [[0], [0, 1], [0, 2], [0, 1]]
    late = (schedule.client == 1) & (schedule.used_by == 3)
    assert schedule.start_version[late].tolist() == [1]
    assert schedule.begin[late].tolist() == [8.0]


def test_a_tick_nobody_meets_leaves_the_model() -> None:
    schedule = plan(Windowed(period=1, local_steps=1), FLEET, horizon=3, seed=0)
    assert np.bincount(schedule.used_by[: schedule.jobs], minlength=3).tolist() == [0, 1, 0]


def test_p11_wide_windows_and_full_arrivals_are_fedavg() -> None:
    fleet = client_speeds(np.array([1.0, 2.0, 1.5, 2.5]), Deterministic())
    trainer, initial = quadratics(4), start_model()
    fedavg = bound(FedAvg(), fleet, 2, selected=4)
    expected = server_models(fedavg, scheduled(fedavg, 40), trainer, initial)
    window = plan(Windowed(period=8, local_steps=2), fleet, horizon=40, seed=0)
    arrival = plan(Buffered(buffer=4, local_steps=2, hand_out="flush"), fleet, horizon=40, seed=0)
    for schedule in (window, arrival):
        models = server_models(fedavg, schedule, trainer, initial)
        assert len(models) == 6
        assert all(close(a, b) for a, b in zip(models, expected, strict=True))
