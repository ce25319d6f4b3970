"""The plain loop: what jobs start from, what clients hold, and what is freed."""

from __future__ import annotations

import weakref

import numpy as np
import torch

from favano.engine import PlainLoop
from favano.methods.favano import Favano
from favano.methods.fedbuff import FedBuff
from favano.methods.quafl import Quafl
from favano.training import Work
from favano.types import Stack
from tests.methods.bound import bound, scheduled
from tests.problems import make_aggregator, quadratics, start_model


class Noting:
    """Trains quadratics, and notes what the jobs start from."""

    def __init__(self) -> None:
        self.starts: list[Stack] = []

    def train(self, start: Stack, work: Work) -> Stack:
        self.starts.append(start.clone())
        return quadratics(10).train(start, work)


def test_a_job_starts_from_the_version_at_its_beginning() -> None:
    """However much later it is used: FedBuff's clients go on before their answers are."""
    method = bound(FedBuff(buffer=3, buffer_mode="code"), 10)
    schedule = scheduled(method, 300)
    trainer = Noting()
    run = make_aggregator(method, schedule, start_model())
    servers = [event.server for event in PlainLoop(run, trainer).events()]
    used = slice(0, schedule.jobs)
    expected = torch.stack(servers)[schedule.start_version[used] + 1]
    assert torch.equal(torch.cat(trainer.starts), expected)
    assert schedule.staleness.max() > 2


def test_clients_hold_the_last_version_that_they_adopted() -> None:
    method = bound(Favano(reweight="none"), 10, 5, selected=3)
    schedule = scheduled(method, 200)
    run = make_aggregator(method, schedule, start_model())
    servers, held = [], np.full(10, -1)
    for event in PlainLoop(run, quadratics(10)).events():
        servers.append(event.server)
        held[schedule.client[schedule.start_version == event.version]] = event.version
        assert torch.equal(event.clients.of(np.arange(10)), torch.stack(servers)[held + 1])
    assert len(set(held.tolist())) > 3


def test_clients_with_a_model_of_their_own_start_from_it() -> None:
    method = bound(Quafl(), 10, 5, selected=3)
    schedule, trainer = scheduled(method, 200), Noting()
    held = start_model().repeat(10, 1)
    for event in PlainLoop(make_aggregator(method, schedule, start_model()), trainer).events():
        if event.version >= 0:
            clients = schedule.client[schedule.used_by == event.version]
            assert torch.equal(trainer.starts[-1], held[clients])
        held = event.clients.of(np.arange(10))
    assert len({tuple(model) for model in held.tolist()}) == 10


def test_versions_that_nobody_holds_are_freed() -> None:
    method = bound(Favano(reweight="none"), 10, 5, selected=3)
    run = make_aggregator(method, scheduled(method, 700), start_model())
    made: list[weakref.ref[Stack]] = []
    most = 0
    for event in PlainLoop(run, quadratics(10)).events():
        made.append(weakref.ref(event.server))
        most = max(most, sum(reference() is not None for reference in made))
    assert 3 < most <= 10 + 2 < len(made)
