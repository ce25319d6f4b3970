"""Many runs over shared lanes: the same numbers as one after the other, whatever the lanes."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import deque

import numpy as np
import pytest
import torch
from torch import nn

from favano.data import BatchStream
from favano.engine import Moment, Replay, pooled, replayed
from favano.errors import NonFiniteUpdate
from favano.methods import State, our_methods
from favano.models.norm import BatchNorm2d
from favano.planning.planned import plan_seed
from favano.specification.presets import resolve
from favano.specification.spec import changed
from favano.training import (
    FinishedJob,
    FlatModel,
    Job,
    LocalRule,
    LoopTrainer,
    SerialLanes,
    Task,
    WorkerLanes,
    one_thread,
)
from favano.types import Vector
from tests.forks import FORKS
from tests.specs import complete

CLIENTS = 8


def network(norm: type[nn.Module] = BatchNorm2d) -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 3, 3), norm(3), nn.ReLU(), nn.Flatten(), nn.Linear(3 * 16, 4))


class Problem:
    """A small network with BatchNorm in float64, trained by any of the methods."""

    def __init__(self, name: str, seed: int, norm: type[nn.Module] = BatchNorm2d) -> None:
        keys = {"clients": CLIENTS, "selected": 3, "local_steps": 4, "seed": seed}
        keys |= {"buffer": 2} if name == "fedbuff" else {}
        self.spec = complete(algorithm=name, horizon=120.0, learning_rate=0.1, **keys)
        self.planned = plan_seed(self.spec, seed)
        self.method, self.schedule = self.planned.method, self.planned.schedule
        torch.manual_seed(seed)
        self.flat = FlatModel(network(norm), device="cpu", dtype=torch.float64)
        self.initial = self.flat.snapshot()
        generator = torch.Generator().manual_seed(seed)
        images = torch.randn(80, 1, 6, 6, generator=generator, dtype=torch.float64)
        labels = torch.randint(0, 4, (80,), generator=generator)
        parts = [np.arange(10 * client, 10 * client + 10) for client in range(CLIENTS)]
        task = Task(images, labels, BatchStream(parts, 4, seed))
        step = self.method.step if self.method.memory else None
        rule = LocalRule(memory=self.method.memory, step=step)
        self.trainer = LoopTrainer(self.flat, task, rule)

    def replay(self) -> Replay[State]:
        rates = self.planned.rates(self.schedule)
        return Replay(self.method, self.schedule, self.flat.layout, rates, self.initial)

    def alone(self) -> list[Vector]:
        with one_thread():
            return [moment.server for moment in replayed(self.replay(), self.trainer)]


class Shuffled:
    """Lanes that finish jobs in an order of their own."""

    def __init__(self, trainers: list[LoopTrainer], capacity: int) -> None:
        self.capacity = capacity
        self.trainers = trainers
        self.waiting: deque[tuple[int, Vector, Job, Vector | None]] = deque()
        self.most = 0

    def submit(self, ticket: int, start: Vector, job: Job, drift: Vector | None = None) -> None:
        assert job.steps > 0
        self.waiting.append((ticket, start.clone(), job, drift))
        self.most = max(self.most, len(self.waiting))
        assert self.most <= self.capacity

    def collect(self) -> list[FinishedJob]:
        self.waiting.rotate(3)
        ticket, start, job, drift = self.waiting.pop()
        return [FinishedJob(ticket, self.trainers[job.task].run(start, job, drift), finite=True)]


def server_models(steps: list[tuple[int, Moment]], run: int) -> list[Vector]:
    return [moment.server for number, moment in steps if number == run]


@pytest.mark.parametrize("capacity", [1, 3, 50])
@pytest.mark.parametrize("name", list(our_methods()))
def test_lanes_equal_the_plain_loop(name: str, capacity: int) -> None:
    """In float64, with BatchNorm, on every method: to the bit, since the steps are the same."""
    problems = [Problem(name, seed) for seed in range(3)]
    lanes = Shuffled([problem.trainer for problem in problems], capacity)
    with one_thread():
        steps = list(pooled([p.replay() for p in problems], lanes, at_once=2))
    for run, problem in enumerate(problems):
        found = [s.moment for s in steps if s.run == run]
        moments = [moment for moment in found if isinstance(moment, Moment)]
        assert [moment.version for moment in moments] == list(range(-1, problem.schedule.updates))
        alone = problem.alone()
        assert all(torch.equal(a.server, b) for a, b in zip(moments, alone, strict=True))


def test_different_methods_share_a_pool() -> None:
    problems = [Problem(name, 1) for name in ("favano", "quafl", "fedbuff", "asofed")]
    lanes = Shuffled([problem.trainer for problem in problems], 20)
    with one_thread():
        steps = list(pooled([p.replay() for p in problems], lanes, at_once=4))
    for run, problem in enumerate(problems):
        last = [s.moment for s in steps if s.run == run][-1]
        assert isinstance(last, Moment)
        assert torch.equal(last.server, problem.alone()[-1])
    assert lanes.most > 10  # jobs of several updates and runs are under way together


@FORKS
def test_worker_processes_equal_the_plain_loop() -> None:
    problems = [Problem(name, 2) for name in ("favano", "fedavg", "scaffold", "asofed")]
    with (
        one_thread(),
        WorkerLanes(problems[0].flat, [p.trainer for p in problems], workers=2) as lanes,
    ):
        steps = list(pooled([p.replay() for p in problems], lanes, at_once=2))
    for run, problem in enumerate(problems):
        last = [s.moment for s in steps if s.run == run][-1]
        assert isinstance(last, Moment)
        assert torch.equal(last.server, problem.alone()[-1])


@FORKS
def test_a_worker_that_fails_says_why() -> None:
    problem = Problem("favano", 0)

    def broken(output: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        raise ZeroDivisionError("no such loss")

    task = Task(problem.trainer.task.features, problem.trainer.task.labels,
                problem.trainer.task.batches, loss=broken)  # fmt: skip
    trainer = LoopTrainer(problem.flat, task, LocalRule())
    with (
        pytest.raises(RuntimeError, match="no such loss"),
        WorkerLanes(problem.flat, [trainer], workers=1) as lanes,
    ):
        list(pooled([problem.replay()], lanes, at_once=1))


@FORKS
def test_a_worker_that_is_killed_is_noticed() -> None:
    problem = Problem("favano", 0)
    with (
        pytest.raises(RuntimeError, match="ended from outside"),
        WorkerLanes(problem.flat, [problem.trainer], workers=2) as lanes,
    ):
        _run_and_kill(problem, lanes)


def _run_and_kill(problem: Problem, lanes: WorkerLanes) -> None:
    for step in pooled([problem.replay()], lanes, at_once=1):
        if isinstance(step.moment, Moment) and step.moment.version == 1:
            child = multiprocessing.active_children()[0]
            os.kill(child.pid or 0, signal.SIGKILL)
            child.join()  # on a busy machine the others could end the run before it dies


def test_a_run_that_fails_ends_and_the_others_go_on() -> None:
    good, bad = Problem("favano", 0), Problem("favano", 1)
    task = bad.trainer.task
    poisoned = Task(task.features * torch.nan, task.labels, task.batches)
    trainers = [LoopTrainer(bad.flat, poisoned, LocalRule()), good.trainer]
    with one_thread():
        steps = list(pooled([bad.replay(), good.replay()], SerialLanes(trainers), at_once=2))
    ends = {step.run: step.moment for step in steps}
    assert isinstance(ends[0], NonFiniteUpdate)
    assert isinstance(ends[1], Moment)
    assert ends[1].version == good.schedule.updates - 1


def polled(clients: int, selected: int) -> Replay[State]:
    """FAVANO with so many clients, of which so many are asked at a time."""
    problem = Problem("favano", 0)
    spec = resolve(changed(problem.spec, {"clients": clients, "selected": selected}))
    planned = plan_seed(spec, 0)
    method, schedule = planned.method, planned.schedule
    rates = np.ones(len(schedule.client))
    return Replay(method, schedule, problem.flat.layout, rates, problem.initial)


class Counting:
    """Lanes that train nothing; `at_once` jobs are done at a time."""

    def __init__(self, capacity: int, at_once: int) -> None:
        self.capacity, self.at_once, self.given = capacity, at_once, 0
        self.waiting: list[FinishedJob] = []
        self.busy: list[int] = []

    def submit(self, ticket: int, start: Vector, job: Job, drift: Vector | None = None) -> None:
        self.given += 1
        self.waiting.append(FinishedJob(ticket, start, finite=True))

    def collect(self) -> list[FinishedJob]:
        self.busy.append(len(self.waiting))
        done, self.waiting = self.waiting[: self.at_once], self.waiting[self.at_once :]
        return done


def test_look_ahead_is_bounded() -> None:
    """A client between contacts costs a reference: few end models wait for their update."""
    replay, lanes = polled(400, 4), Counting(capacity=5, at_once=5)
    schedule = replay.schedule
    ahead = 0
    for step in pooled([replay], lanes, at_once=1):
        assert isinstance(step.moment, Moment)
        used = int((schedule.visit[: schedule.jobs] <= step.moment.version).sum())
        ahead = max(ahead, lanes.given - used)
    assert ahead <= 5 * 5


def test_no_lane_is_idle_however_many_clients_an_update_asks() -> None:
    """What an update itself needs is not held back, be it more than is kept for later ones."""
    lanes = Counting(capacity=3, at_once=1)
    list(pooled([polled(100, 40)], lanes, at_once=1))
    assert len(lanes.busy) > 400
    assert np.mean(np.array(lanes.busy) == 3) > 0.99


class Held(LoopTrainer):
    """Ends its first job when it is told to."""

    gate = multiprocessing.get_context("fork").Semaphore(0)

    def run(self, start: Vector, job: Job, drift: Vector | None = None) -> Vector:
        if job.first_step == 0:
            self.gate.acquire(timeout=60)  # if the others wait for it, the order below is wrong
        return start


@FORKS
def test_no_job_waits_behind_a_long_one() -> None:
    problem = Problem("favano", 0)
    held = Held(problem.flat, problem.trainer.task, LocalRule())
    with one_thread(), WorkerLanes(problem.flat, [held], workers=2) as lanes:
        for ticket in range(4):
            lanes.submit(ticket, problem.initial, Job(0, 0, ticket, 1, 0.01))
        done: list[int] = []
        while len(done) < 4:
            done += [one.ticket for one in lanes.collect()]
            if len(done) == 3:
                held.gate.release()
    assert done[-1] == 0


@pytest.mark.parametrize("name", list(our_methods()))
def test_pieces_of_a_large_model_add_up_to_the_whole(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a method does to a parameter does not depend on those beside it."""
    problem = Problem(name, 1)
    whole = problem.alone()
    monkeypatch.setattr("favano.engine.replay._PIECE", 7)
    torch.testing.assert_close(problem.alone(), whole, rtol=1e-12, atol=1e-14)
