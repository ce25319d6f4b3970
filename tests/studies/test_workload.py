"""The critical path of scripted schedules by hand."""

from __future__ import annotations

import numpy as np
import pytest

from favano.data.batches import BatchStream, Order
from favano.planning.planned import plan_seeds
from favano.policies import Buffered, Polling, Rounds
from favano.schedule import Schedule, plan
from favano.specification.presets import resolve
from favano.studies.workload import critical_path, image_count
from favano.timing import Trace, traced_fleet
from tests.specs import spec_of


def scripted(policy: Polling | Rounds | Buffered, *rows: list[float], horizon: float) -> Schedule:
    fleet = traced_fleet(Trace(tuple(np.array(row) for row in rows)))
    return plan(policy, fleet, horizon=horizon, seed=0)


def test_a_client_alone_is_a_chain() -> None:
    # windows of 7: 3 + 4 = 7 -> 2 steps; 8 -> none; 2, 2, 2 -> 3
    row = [3.0, 4.0, 8.0, 2.0, 2.0, 2.0]
    schedule = scripted(Polling(selected=1, local_steps=3), row, horizon=21)
    assert schedule.steps[: schedule.jobs].tolist() == [2, 0, 3]
    assert critical_path(schedule) == 5


def test_rounds_add_up_their_longest_jobs() -> None:
    # every 7 both are asked: 3 and 1 steps, 1 and 2 steps -> 3 + 2
    fast, slow = [2.0, 2.0, 2.0, 5.0, 5.0, 5.0], [7.0, 3.0, 3.0, 3.0]
    schedule = scripted(Polling(selected=2, local_steps=3), fast, slow, horizon=14)
    assert schedule.steps[: schedule.jobs].tolist() == [3, 1, 1, 2]
    assert critical_path(schedule) == 5
    # FedAvg: everyone makes all K steps
    schedule = scripted(
        Rounds(selected=2, local_steps=3, interaction_time=0.0), fast, slow, horizon=22
    )
    assert critical_path(schedule) == 3 * schedule.updates


def test_long_jobs_run_beside_short_ones() -> None:
    # One update an arrival, each from the version of the client's last: the slow client's job
    # starts from the initial model, beside five of the fast one's.
    policy = Buffered(buffer=1, local_steps=1, hand_out="flush", interaction_time=0.0)
    schedule = scripted(policy, [1.0], [5.5], horizon=6.5)
    order = schedule.client[: schedule.jobs].tolist()
    assert order == [0, 0, 0, 0, 0, 1, 0]
    assert schedule.start_version[: schedule.jobs].tolist() == [-1, 0, 1, 2, 3, -1, 4]
    assert critical_path(schedule) == 6


def test_nothing_done_is_no_path() -> None:
    schedule = scripted(Polling(selected=1, local_steps=3), [100.0], horizon=21)
    assert critical_path(schedule) == 0
    schedule = scripted(Polling(selected=1, local_steps=3), [1.0, 1.0, 1.0], horizon=5)
    assert (schedule.updates, critical_path(schedule)) == (0, 0)


def test_the_critical_path_of_the_papers_setting() -> None:
    schedule = plan_seeds(resolve(spec_of(dataset="mnist")))[0].schedule
    steps = int(schedule.steps[: schedule.jobs].sum())
    longest = np.maximum.reduceat(schedule.steps[: schedule.jobs], schedule.offsets[:-1])
    assert critical_path(schedule) < longest.sum() / 3 < steps / 3


@pytest.mark.parametrize("order", ["epoch", "replacement"])
def test_images_are_those_of_the_batches(order: Order) -> None:
    parts = [np.arange(size) for size in (1, 7, 8, 9, 23)]
    batches = BatchStream(parts, 8, seed=0, order=order)
    rows = ([1.0, 2.0], [3.0, 1.0], [2.0, 2.0], [1.0, 1.0], [2.0, 5.0])
    schedule = scripted(Polling(selected=3, local_steps=5), *rows, horizon=140)
    jobs = zip(schedule.client, schedule.first_step, schedule.steps, strict=True)
    drawn = [
        len(batches.indices(int(client), int(first) + step))
        for client, first, steps in list(jobs)[: schedule.jobs]
        for step in range(int(steps))
    ]
    assert image_count(schedule, batches) == sum(drawn) > 0
