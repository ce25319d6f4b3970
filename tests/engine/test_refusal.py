"""Answers that hold NaN or infinity are left out: what their clients go on from, in all engines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from favano.engine import ArrayEngine, Link, Moment, Replay, pooled, replayed
from favano.methods import AnyMethod, State
from favano.methods.favano import Favano
from favano.methods.quafl import Quafl
from favano.methods.weights import Known
from favano.quantisation import Codec
from favano.training import Layout, SerialLanes, Work, one_thread
from favano.types import Stack
from tests.engine.test_array_engine import copied, moments, stacks
from tests.engine.test_link import COARSE, SEED, SIZES, label
from tests.engine.test_pool import Problem
from tests.methods.bound import any_method, bound, scheduled, weighed
from tests.problems import quadratics, start_model

METHODS = pytest.mark.parametrize("name", ["quafl", "favano", "fedbuff"])


class Refusal:
    """A run in which the second answer of one client, and no other, cannot be used."""

    def __init__(self, name: str) -> None:
        self.problem = Problem(name, 0)
        plan = self.problem.schedule
        answers = [
            jobs[plan.steps[jobs] > 0]
            for client in range(plan.clients)
            if len(jobs := np.flatnonzero(plan.client[: plan.jobs] == client)) > 2
        ]
        self.job, self.next = next(jobs for jobs in answers if len(jobs) > 2)[1:3].tolist()
        self.client, self.version = int(plan.client[self.job]), int(plan.visit[self.job])

    def replay(self) -> Replay[State]:
        found = self.problem.replay()
        found.non_finite = "skip"
        found.rates[self.job] = np.inf
        return found


@METHODS
def test_a_refused_client_goes_on_from_the_new_server_model(name: str) -> None:
    """A QuAFL client too: the model it kept for itself before is not taken up again."""
    refusal = Refusal(name)
    replay, before, after = refusal.replay(), None, None
    for moment in replayed(replay, refusal.problem.trainer):
        if moment.version == refusal.version - 1:
            before = replay.starts(np.array([refusal.job]))[0]
        refused = [refusal.client] if moment.version == refusal.version else []
        assert moment.refused.tolist() == refused
        if refused:
            after = replay.starts(np.array([refusal.next]))[0]
            assert torch.equal(after, moment.server)
    assert before is not None
    assert after is not None
    assert not torch.equal(before, after)


@METHODS
def test_all_engines_leave_it_out_alike(name: str) -> None:
    refusal = Refusal(name)
    problem = refusal.problem
    with one_thread():
        expected = list(replayed(refusal.replay(), problem.trainer))
        pool = list(pooled([refusal.replay()], SerialLanes([problem.trainer]), at_once=1))
    waves = ArrayEngine([refusal.replay()], stacks([problem], 7)).steps(at_once=1)
    for found in (moments(pool, 0), moments([copied(step) for step in waves], 0)):
        for one, other in zip(found, expected, strict=True):
            assert one.refused.tolist() == other.refused.tolist()
            torch.testing.assert_close(one.server, other.server, rtol=1e-10, atol=1e-10)


class Poisoned:
    """Client 2 sends NaN once in a while."""

    def train(self, start: Stack, work: Work) -> Stack:
        end = quadratics(10).train(start, work)
        end[torch.from_numpy((work.client == 2) & (work.first_step % 3 == 1))] = torch.nan
        return end


@pytest.mark.parametrize("codec", COARSE, ids=label)
@pytest.mark.parametrize(
    "method",
    [
        any_method(bound(Quafl(), 10, 5, selected=3)),
        any_method(weighed(bound(Favano(), 10, 5, selected=3), Known(np.ones(10), np.ones(10)))),
    ],
    ids=["quafl", "favano"],
)
def test_behind_a_codec_the_server_stays_finite(method: AnyMethod, codec: Codec) -> None:
    schedule = scheduled(method, 300)
    layout = Layout(parameters=4, buffers=0, counters=0)
    link = Link(codec, SIZES, schedule, seed=SEED, streams=np.arange(10))
    rates = np.full(len(schedule.client), 0.1)
    replay = Replay(method, schedule, layout, rates, start_model(), non_finite="skip", link=link)
    moments: Sequence[Moment] = list(replayed(replay, Poisoned()))
    assert sum(len(moment.refused) for moment in moments) > 1
    assert all(bool(moment.server.isfinite().all()) for moment in moments)
