"""Evaluation times, counters of work, and the rows of a history."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from favano.aggregation import Aggregator
from favano.engine import Measurement, Moment, PlainLoop, Recorder, count_work, evaluation_times
from favano.methods import ModelState
from favano.methods.fedavg import FedAvg
from favano.schedule import Barrier, Poll, Schedule, plan
from favano.timing import Trace, traced_fleet, two_speeds
from favano.types import Vector
from tests.methods.bound import bound, scheduled
from tests.problems import make_aggregator, quadratics, start_model

FLEET = traced_fleet(Trace((np.array([1.0, 2.0]), np.array([3.0, 4.0]), np.array([4.0, 6.0]))))


def test_evaluation_times() -> None:
    assert evaluation_times(10, 4, 9.0).tolist() == [0, 4, 8, 10]
    assert evaluation_times(8, 4, 11.5).tolist() == [0, 4, 8, 11.5]
    assert evaluation_times(8, 4, 8.0).tolist() == [0, 4, 8]


def three_of_three() -> tuple[Aggregator[ModelState], Schedule]:
    """FedAvg with two steps each of all three clients."""
    method = bound(FedAvg(), FLEET, 2, selected=3)
    schedule = scheduled(method, 20)
    return make_aggregator(method, schedule, start_model()), schedule


def test_rows_of_a_synchronous_run_by_hand() -> None:
    """Rounds end at 13 and 26; the horizon is 20; three clients make two steps each a round."""
    aggregator, schedule = three_of_three()
    scored: list[Vector] = []

    def score(model: Vector) -> Tensor:
        scored.append(model)
        return torch.tensor([float(len(scored)), 0.5], dtype=torch.float64)

    heard: list[int] = []
    times = evaluation_times(20, 5, float(schedule.time[-1]))
    recorder = Recorder(aggregator, 4, times, score)
    for moment in PlainLoop(aggregator, quadratics(3)).moments():
        heard.append(moment.version)
        recorder.observe(moment)
    rows = recorder.rows()
    assert [row.time for row in rows] == [0, 5, 10, 15, 20, 26]
    assert [row.server_step for row in rows] == [0, 0, 0, 1, 1, 2]
    assert [row.local_steps for row in rows] == [0, 0, 0, 6, 6, 12]
    message = 32 * 4
    assert [row.bits_up // message for row in rows] == [0, 0, 0, 3, 3, 6]
    assert [row.bits_down // message for row in rows] == [3, 3, 3, 6, 6, 6]
    assert [row.loss for row in rows] == [1, 1, 1, 2, 2, 3]  # one evaluation a version
    assert {row.seed for row in rows} == {4}
    assert heard == [-1, 0, 1]


def test_what_was_measured_with_others_is_not_measured_again() -> None:
    """One measurement of a version serves all times before the next update."""
    aggregator, schedule = three_of_three()

    def never(*given: object) -> Tensor:
        raise AssertionError

    times = evaluation_times(20, 5, float(schedule.time[-1]))
    recorder = Recorder(aggregator, 4, times, never, never)  # type: ignore[arg-type]
    for moment in PlainLoop(aggregator, quadratics(3)).moments():
        assert recorder.due(moment.version)
        numbers = torch.tensor([1.0, 0.5, 2.0, 3.0]) + moment.version
        measured = Measurement(numbers, moment.server.clone(), moment.server + 1)
        recorder.observe(moment._replace(measured=measured))
    assert [row.loss for row in recorder.rows()] == [0, 0, 0, 1, 1, 2]
    assert [row.potential for row in recorder.rows()] == [2, 2, 2, 3, 3, 4]
    assert recorder.last is not None
    assert torch.equal(recorder.last.mean, recorder.last.server + 1)


def test_the_last_observation_is_a_copy_and_counts_every_refusal() -> None:
    aggregator, _ = three_of_three()
    recorder = Recorder(aggregator, 0, np.array([0.0, 5.0]), lambda _: torch.zeros(2))
    server, held = start_model(), PlainLoop(aggregator, quadratics(3))
    recorder.observe(Moment(-1, server, np.array([0, 2]), held, held.snapshot))
    server += 1  # the memory of a moment may be used again
    assert recorder.last is not None
    assert recorder.last.refused == 2
    assert torch.equal(recorder.last.server, start_model())


def test_lost_steps_count_as_local_steps_only() -> None:
    policy = Barrier(selected=3, local_steps=2, wait_for=1)
    schedule = plan(policy, FLEET, horizon=7, seed=0)
    counters = count_work(schedule)
    assert counters.contributed_steps.tolist() == [0, 2, 4]
    assert counters.local_steps.tolist() == [0, 3, 5]  # the 4 and the 6 of round 2 are too long
    assert counters.uploads.tolist() == [0, 1, 2]
    assert counters.downloads.tolist() == [3, 6, 6]


def test_a_contact_is_one_message_each_way() -> None:
    policy = Poll(selected=4, local_steps=3)
    schedule = plan(policy, two_speeds(10), horizon=70, seed=0)
    counters = count_work(schedule)
    assert counters.uploads.tolist() == [4 * k for k in range(11)]
    assert counters.downloads.tolist() == [10 + 4 * k for k in range(11)]
    assert counters.first_downloads.tolist() == [10] * 11


def test_a_client_that_begins_late_gets_its_first_model_then() -> None:
    """Two of four clients per round: the last one to be drawn has its first model in its round."""
    schedule = plan(Barrier(selected=2, local_steps=2), two_speeds(4), horizon=200, seed=0)
    seen: set[int] = set()
    first = []
    for version in range(-1, schedule.updates):
        seen |= set(schedule.client[schedule.base == version].tolist())
        first.append(len(seen))
    assert 2 == first[0] < first[-1] == 4
    assert count_work(schedule).first_downloads.tolist() == first
