"""What a snapshot is compared by, and which jobs are under way in it."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
import torch

from favano.aggregation.client_memory import KeptByClients
from favano.aggregation.snapshot import (
    Held,
    NoSnapshot,
    RunMemory,
    Snapshot,
    Waiting,
    beginning_digest,
    jobs_under_way,
)
from favano.methods import ModelState
from favano.schedule import Timeline
from favano.types import Floats


def course() -> Timeline:
    """Two updates of client 0; client 1 begins with it, and is used by the second one."""
    timeline = Timeline(clients=2, local_steps=3)
    timeline.begin(0, 0.0), timeline.begin(1, 0.0)  # jobs 0 and 1, from version -1
    timeline.receive(0, 3, 1.0)
    timeline.use([0], 1.0)
    timeline.begin(0, 1.0)  # job 2, from version 0
    timeline.receive(2, 2, 4.0)
    timeline.receive(1, 1, 4.0)
    timeline.drop(1)
    timeline.use([2], 5.0)
    timeline.begin(0, 5.0)  # job 3, from version 1
    return timeline


def snapshot(version: int, *waiting: tuple[int, int, int]) -> Snapshot:
    """The clients, versions and start models of jobs that are waiting."""
    client, base, place = np.array(waiting, dtype=np.int64).reshape(-1, 3).T
    nobody = np.zeros(2, dtype=np.int64)
    held = Held(np.array([7, 8]), nobody, np.zeros(2, dtype=np.bool_), nobody)
    memory = RunMemory(
        "", None, ModelState(torch.zeros(0)), (), KeptByClients({}, {}, {}), {}, None
    )
    return Snapshot(version, np.zeros((1, 1)), 0, held, Waiting(client, base, place), memory)


def test_a_job_is_under_way_from_its_start_version_until_it_is_used() -> None:
    """By the first update, job 0 is used, and job 3 has not begun; a longer run may use job 1."""
    beginning = jobs_under_way(course(), snapshot(0, (0, 0, 5), (1, -1, 4)))
    assert beginning.jobs.tolist() == [1, 2]
    assert beginning.place.tolist() == [4, 5]
    assert jobs_under_way(course(), snapshot(0, (0, 0, 5))).jobs.tolist() == [2]
    before = jobs_under_way(course(), snapshot(-1, (0, -1, 2)))
    assert before.jobs.tolist() == [0]
    assert before.place.tolist() == [2]


def test_a_start_model_that_was_not_kept() -> None:
    for timeline in (course(), Timeline.of(course().schedule)):
        with pytest.raises(NoSnapshot, match="the start model of a job that is used now was not"):
            jobs_under_way(timeline, snapshot(0))


RATES = np.array([0.5, 0.25, 0.125, 1.0])


def test_a_beginning_by_hand() -> None:
    """What is used by version 0 with all that it was made with, and who is at work since when."""
    whole = [
        [0], [3], [-1], [0], [0],  # client, steps, base, visit and first step of job 0
    ]  # fmt: skip
    digest = hashlib.sha256()
    for part in whole:
        digest.update(np.array(part, dtype=np.int64).tobytes())
    digest.update(np.array([0.5]).tobytes())  # its rate
    digest.update(np.array([1.0]).tobytes())  # the time of the update
    digest.update(np.array([0], dtype=np.int64).tobytes())  # steps lost by then
    for part in ([-1, 0], [1, 0]):  # start version and client of jobs 1 and 2
        digest.update(np.array(part, dtype=np.int64).tobytes())
    assert beginning_digest(course(), RATES, 0) == digest.hexdigest()


def changed(job: int) -> Floats:
    """The step size of one job is another one."""
    rates = RATES.copy()
    rates[job] *= 2
    return rates


def test_rates_count_from_their_use_on() -> None:
    """A longer run has jobs, and rates, that a shorter one does not know of."""
    at_first, later = (beginning_digest(course(), RATES, version) for version in (0, 1))
    assert at_first != later
    for job, by_first, by_later in ((0, False, False), (2, True, False), (3, True, True)):
        assert (beginning_digest(course(), changed(job), 0) == at_first) == by_first
        assert (beginning_digest(course(), changed(job), 1) == later) == by_later
