"""Durations of jobs: what is drawn ahead equals what is drawn for one job."""

from __future__ import annotations

import numpy as np
import pytest

from favano.schedule.job_times import JobTimes
from favano.timing import ClientSpeeds, Exponential, Geometric, StepLaw, Trace

LAWS = [Geometric(), Exponential(), Trace((np.arange(1.0, 8.0), np.array([0.3, 0.1])))]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
def test_jobs_of_any_length_take_the_sum_of_their_steps(law: StepLaw) -> None:
    """Lengths change from job to job, now and then by much, and draws may be used up or not."""
    fleet = ClientSpeeds(np.array([4.0, 0.2 if isinstance(law, Trace) else 1.5]), law, np.arange(2))
    times = JobTimes(fleet, np.array([3, 5]), np.array([2.0, 4.0]), 7)
    random, place = np.random.default_rng(0), [0, 0]
    for number in range(120):
        for client in range(2):
            steps = int(random.choice([1, 2, 3, 5, 9, 40, 1500], p=[0.2] * 4 + [0.1, 0.09, 0.01]))
            length, _ = times.of(client, number, place[client], steps)
            total = 0.0
            for index in range(place[client], place[client] + steps):
                total += float(fleet.durations(7, np.array([client]), np.array([index]))[0])
            assert length == total
            place[client] += steps - int(random.random() < 0.1)  # one that was stopped
