"""Replay: refused updates, memory of versions, and models that clients keep."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from favano.algorithms import Algorithm, Favano, Known, Quafl
from favano.algorithms.favano import FavanoState
from favano.engine import Replay, RunModels, replayed
from favano.errors import BadInput, NonFiniteUpdate
from favano.schedule import Arrival, Barrier, Course, Foreseen, Poll, Schedule, plan
from favano.timing import two_speeds
from favano.training import Layout, Work
from favano.types import Ints, NonFinite, Stack
from tests.problems import AnyState, make_replay, quadratics, start_model

POLICY = Poll(selected=4, local_steps=5)


class Poisoned:
    """Client 3 sends NaN from a certain step of its stream on."""

    def __init__(self) -> None:
        self.trainer = quadratics(10)

    def train(self, start: Stack, work: Work) -> Stack:
        end = self.trainer.train(start, work)
        end[torch.from_numpy((work.client == 3) & (work.first_step >= 4))] = torch.nan
        return end


def replay_of(
    algorithm: Algorithm[AnyState], schedule: Schedule, non_finite: NonFinite
) -> tuple[list[torch.Tensor], list[list[int]]]:
    initial = start_model()
    rates = np.full(len(schedule.client), 0.1)
    layout = Layout(parameters=4, buffers=0, counters=0)
    replay = Replay(algorithm, schedule, layout, rates, initial, non_finite=non_finite)
    moments = list(replayed(replay, Poisoned()))
    return [m.server for m in moments], [m.refused.tolist() for m in moments]


ALGORITHMS = [
    Favano(policy=POLICY, weights=Known(np.ones(10), np.ones(10))),
    Quafl(policy=POLICY),
]


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=["favano", "quafl"])
def test_nan_stops_the_run_and_names_the_client(algorithm: Algorithm[AnyState]) -> None:
    schedule = plan(POLICY, two_speeds(10), horizon=300, seed=0)
    late = (schedule.client == 3) & (schedule.first_step >= 4)
    update = int(schedule.visit[late].min()) + 1
    with pytest.raises(NonFiniteUpdate, match=f"client 3: the update for server step {update} "):
        replay_of(algorithm, schedule, "stop")


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=["favano", "quafl"])
def test_nan_can_be_skipped(algorithm: Algorithm[AnyState]) -> None:
    schedule = plan(POLICY, two_speeds(10), horizon=300, seed=0)
    servers, refused = replay_of(algorithm, schedule, "skip")
    assert all(bool(torch.isfinite(server).all()) for server in servers)
    late = (schedule.client == 3) & (schedule.first_step >= 4) & (schedule.visit < schedule.updates)
    assert [client for clients in refused for client in clients] == [3] * int(late.sum())
    assert late.sum() > 1


def test_versions_nobody_needs_are_dropped() -> None:
    """A client between contacts is a reference: 2,000 of them cost the versions they point to."""
    fleet = two_speeds(2000)
    policy = Poll(selected=500, local_steps=2)
    schedule = plan(policy, fleet, horizon=7 * 100, seed=0)
    initial = torch.zeros(3, dtype=torch.float64)
    store = RunModels(Foreseen(schedule), initial)
    most = 0
    for version in range(schedule.updates):
        jobs = schedule.visit == version
        starts = store.starts(schedule.client[jobs], schedule.base[jobs])
        assert starts[:, 0].tolist() == (schedule.base[jobs] + 1).tolist()
        store.put(version, torch.full((3,), version + 1.0, dtype=torch.float64))
        most = max(most, store.versions)
        held = np.full(2000, -1)
        done = schedule.base <= version
        np.maximum.at(held, schedule.client[done], schedule.base[done])
        spread = store.spread(torch.zeros(3, dtype=torch.float64), 3)
        assert spread.variance == pytest.approx(3 * float(((held + 1.0) ** 2).sum()))
    assert 5 < most < 60


class Corrected(Favano):
    """A method that adds something to the gradients of its clients."""

    def drift(self, state: FavanoState, client: Ints) -> Stack:  # type: ignore[override]
        return state.model.expand(len(client), -1)


class Keeping(Corrected):
    """Its clients go on from their own models."""

    def restart(self, server: Stack, own: Stack) -> Stack:  # type: ignore[override]
        return own.clone()


class Growing(Foreseen):
    """Only the next update is known."""

    complete = False


def corrected(policy: Poll | Arrival | Barrier, kind: type[Corrected] = Corrected) -> None:
    """Put a run of such a method together."""
    schedule: Schedule | Course = plan(policy, two_speeds(10), horizon=300, seed=0)
    method = kind(policy=POLICY, weights=Known(np.ones(10), np.ones(10)))
    make_replay(method, schedule, start_model())


@pytest.mark.parametrize("policy", [POLICY, Arrival(buffer=2, local_steps=3, hand_out="flush")])
def test_corrected_gradients_need_clients_that_start_from_the_newest_model(
    policy: Poll | Arrival,
) -> None:
    """Otherwise the correction would be that of whatever version the server has by then."""
    rule = "algorithm=Corrected: corrects gradients .*must all start from the newest model"
    with pytest.raises(BadInput, match=rule):
        corrected(policy)


def test_rounds_and_polls_of_everybody_start_from_the_newest_model() -> None:
    corrected(Barrier(selected=4, local_steps=3))
    corrected(Poll(selected=10, local_steps=3))
    with pytest.raises(BadInput, match="algorithm=Keeping: corrects gradients"):
        corrected(Poll(selected=10, local_steps=3), Keeping)


def test_corrected_gradients_need_a_schedule_that_is_known() -> None:
    method = Corrected(policy=POLICY, weights=Known(np.ones(10), np.ones(10)))
    schedule = plan(Poll(selected=10, local_steps=3), two_speeds(10), horizon=300, seed=0)
    with pytest.raises(BadInput, match="algorithm=Corrected: corrects gradients"):
        make_replay(method, Growing(schedule), start_model())


def test_of_counters_the_largest_wins_the_servers_included() -> None:
    """The server has heard of 9 batches, the clients of 4 and 2; parameter, buffer, counter."""
    policy = Poll(selected=2, local_steps=1)
    schedule = plan(policy, two_speeds(2), horizon=7, seed=0)
    algorithm = Favano(policy=policy, weights=Known(np.ones(2), np.ones(2)), reweight="none")
    layout = Layout(parameters=1, buffers=1, counters=1)
    initial = torch.tensor([0.0, 2.0, 9.0], dtype=torch.float64)
    replay = Replay(algorithm, schedule, layout, np.ones(len(schedule.client)), initial)
    end = torch.tensor([[3.0, 3.0, 4.0], [6.0, 10.0, 2.0]], dtype=torch.float64)
    moment = replay.update(replay.starts(replay.jobs(0)), end, [True, True])
    assert moment.server.tolist() == [3.0, 5.0, 9.0]
