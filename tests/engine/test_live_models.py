"""Live client models: trained up to the moment, from the planner's own draws."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from favano.engine import PlainLoop, Recorder, live_models
from favano.errors import BadInput
from favano.methods.asyncsgd import AsyncSGD
from favano.methods.clock import ServerClock
from favano.methods.favano import Favano
from favano.methods.fedavg import FedAvg
from favano.methods.weights import KnownSteps
from favano.policies import Adaptive, Buffered, Polling, Rounds
from favano.schedule import plan, under_way
from favano.timing import Trace, traced_fleet, two_speeds
from tests.methods.bound import bound, scheduled, weighed
from tests.problems import close, make_aggregator, ones, quadratics, start_model

FLEET = traced_fleet(Trace((np.array([1.0, 2.0]), np.array([3.0, 4.0]), np.array([4.0, 6.0]))))


def test_steps_made_by_a_moment() -> None:
    policy = Rounds(selected=3, local_steps=2)
    schedule = plan(policy, FLEET, horizon=20, seed=0)  # rounds 0..13, 13..26
    for time, clients, steps in (
        (0.5, [0, 1, 2], [0, 0, 0]),
        (3.0, [1, 2], [1, 0]),
        (9.0, [2], [1]),
        (12.0, [], []),
        (17.0, [1, 2], [1, 1]),
    ):
        now = under_way(schedule, policy, FLEET, time=time, seed=0)
        assert now.client.tolist() == clients
        assert now.steps.tolist() == steps


@pytest.mark.parametrize(
    "policy",
    [
        Polling(selected=3, local_steps=5),
        Polling(selected=3, local_steps=5, idle_in_interaction=True),
        Buffered(buffer=1, local_steps=4, hand_out="uniform", concurrency=4, latency="client"),
        Buffered(buffer=2, local_steps=4, hand_out="flush"),
    ],
)
def test_steps_never_exceed_those_handed_in(policy: Polling | Buffered) -> None:
    fleet = two_speeds(8, seed=1)
    schedule = plan(policy, fleet, horizon=200, seed=1)
    for time in (0.0, 33.0, 77.7, 140.0):
        now = under_way(schedule, policy, fleet, time=time, seed=1)
        assert len(set(now.client.tolist())) == len(now.client)
        used = schedule.used_by[now.job] < schedule.updates
        assert (now.steps[used] <= schedule.steps[now.job][used]).all()
        later = under_way(schedule, policy, fleet, time=time + 3, seed=1)
        both = np.intersect1d(now.job, later.job)
        before = now.steps[np.isin(now.job, both)]
        assert (later.steps[np.isin(later.job, both)] >= before).all()


def test_live_variance_by_hand() -> None:
    method = bound(FedAvg(), FLEET, 2, selected=3)
    trainer, initial = quadratics(3), start_model()
    aggregator = make_aggregator(method, scheduled(method, 20), initial)
    at = live_models(aggregator, trainer, FLEET, seed=0)
    recorder = Recorder(aggregator, 0, np.array([0.0, 3.0]), lambda _: torch.zeros(2), at)
    loop = PlainLoop(aggregator, trainer)
    first = next(loop.events())
    recorder.observe(first)
    rows = recorder.rows()
    moved = trainer.local(1, initial, 1, 0.1) - initial  # only client 1 has made a step by then
    assert rows[0].variance == 0.0
    assert rows[1].variance == pytest.approx(float(moved.square().sum()))
    assert close(at(3.0, first.clients)[1], initial + moved)


def test_readings_without_known_progress_are_refused() -> None:
    fleet = two_speeds(4)
    method = weighed(
        bound(Favano(), fleet, clock=ServerClock(interruption="keep")), KnownSteps(ones(4), ones(4))
    )
    aggregator = make_aggregator(method, scheduled(method, 50), torch.zeros(4, dtype=torch.float64))
    with pytest.raises(BadInput, match="interruption=keep: the steps of a job under way"):
        live_models(aggregator, quadratics(4), fleet, seed=0)


def test_clients_that_queue_are_not_at_work() -> None:
    fleet = two_speeds(3)
    method = bound(AsyncSGD(concurrency=3, server_learning_rate=1.0), fleet)
    schedule = scheduled(method, 100)
    aggregator = make_aggregator(method, schedule, start_model())
    for event in PlainLoop(aggregator, quadratics(3)).events():
        if event.version == schedule.updates - 1:
            live = live_models(aggregator, quadratics(3), fleet, seed=0)
            models = live(float(schedule.time[-1]), event.clients)
            assert 1 <= len(models) <= 3


@pytest.mark.parametrize(
    ("policy", "moments"),
    [
        (Polling(selected=1, local_steps=2), [(0.9, 0), (1.0, 1), (2.9, 1), (3.0, 2)]),
        (
            Polling(selected=1, local_steps=2, idle_in_interaction=True),
            [(1.0, 0), (3.9, 0), (4.0, 1), (5.9, 1), (6.0, 2), (10.9, 0), (11.0, 1)],
        ),
        (
            Buffered(buffer=1, local_steps=2, hand_out="flush", latency="client"),
            [(3.9, 0), (4.0, 1), (5.9, 1), (9.9, 0), (10.0, 1)],
        ),
        (
            Adaptive(local_steps=2, most_steps=2, latency="client"),
            [(3.9, 0), (4.0, 1), (5.9, 1), (9.9, 0), (10.0, 1)],
        ),
        (
            Buffered(buffer=1, local_steps=2, hand_out="flush", latency="server"),
            [(0.9, 0), (1.0, 1), (2.9, 1), (6.9, 0), (7.0, 1)],
        ),
    ],
)
def test_while_a_client_talks_it_makes_no_step(
    policy: Polling | Buffered | Adaptive, moments: list[tuple[float, int]]
) -> None:
    """One client, steps of 1 and 2 turn about, an exchange of 3: by hand, into the second job."""
    fleet = traced_fleet(Trace((np.array([1.0, 2.0]),)))
    schedule = plan(policy, fleet, horizon=20, seed=0)
    for time, steps in moments:
        assert under_way(schedule, policy, fleet, time=time, seed=0).steps.tolist() == [steps], time


def test_live_models_wait_for_the_exchange() -> None:
    """At time 4 of 7, one step after an exchange of 3; without the idle time it were two."""
    fleet = traced_fleet(Trace((np.array([1.0, 2.0]),)))
    clock = ServerClock(idle_in_interaction=True)
    idle = bound(Favano(), fleet, 2, selected=1, clock=clock)
    method = weighed(idle, KnownSteps(ones(1), ones(1)))
    trainer, initial = quadratics(1), start_model()
    aggregator = make_aggregator(method, scheduled(method, 20), initial)
    live = live_models(aggregator, trainer, fleet, seed=0)
    held = next(PlainLoop(aggregator, trainer).events()).clients
    assert close(live(3.5, held)[0], initial)
    assert close(live(4.0, held)[0], trainer.local(0, initial, 1, 0.1))
    assert close(live(6.0, held)[0], trainer.local(0, initial, 2, 0.1))
