"""Worker processes: errors are told, deaths are noticed, and no job waits without need."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from favano.errors import BadInput
from favano.training import Job, LocalRule, LoopTrainer, Loss, Work, WorkerLanes, one_thread
from favano.types import Vector
from tests.forks import FORKS
from tests.training.test_stack_lanes import perceptron, trainers

pytestmark = FORKS


def plain() -> LoopTrainer:
    loss, rules = functional.cross_entropy, [LocalRule(), LocalRule()]
    return trainers(perceptron(), raw=False, loss=loss, rules=rules)[0]


def load(lanes: WorkerLanes, start: Vector, jobs: int) -> None:
    """Jobs of 1, 2, ... steps, with data of client 0."""
    number = np.arange(jobs)
    none = np.zeros_like(number)
    work = Work(none, number, number + 1, np.full(jobs, 0.01))
    lanes.load(number, start.repeat(jobs, 1), none, work)


def broken(output: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    raise ZeroDivisionError("no such loss")


@pytest.mark.parametrize(
    ("loss", "kind", "said"),
    [
        (broken, BadInput, r"^function=broken: raises ZeroDivisionError: no such loss \(.*line"),
        (functional.l1_loss, RuntimeError, "^local training failed in a worker:\nTraceback"),
    ],
    ids=["own", "library"],
)
def test_a_worker_that_fails_says_why(loss: Loss, kind: type[Exception], said: str) -> None:
    trainer = plain()
    task = replace(trainer.task, loss=loss)
    failing = LoopTrainer(trainer.model, task, LocalRule())
    with WorkerLanes(trainer.model, [failing], workers=1) as lanes:
        load(lanes, trainer.model.snapshot(), 1)
        with pytest.raises(kind, match=said) as raised:
            lanes.collect()
    if (cause := raised.value.__cause__) is not None:
        assert repr(cause) == "ZeroDivisionError('no such loss')"
        assert "in broken\n" in cause.__notes__[0]  # the traceback of the worker


def kill_one_and_go_on(lanes: WorkerLanes, start: Vector) -> None:
    child = multiprocessing.active_children()[0]
    os.kill(child.pid or 0, signal.SIGKILL)
    child.join()
    load(lanes, start, 4)
    while lanes.collect():
        pass


def test_a_worker_that_is_killed_is_noticed() -> None:
    trainer = plain()
    with (
        pytest.raises(RuntimeError, match="ended from outside"),
        WorkerLanes(trainer.model, [trainer], workers=2) as lanes,
    ):
        kill_one_and_go_on(lanes, trainer.model.snapshot())


class Held(LoopTrainer):
    """Ends its first job when it is told to."""

    gate = multiprocessing.get_context("fork").Semaphore(0)

    def run(
        self,
        start: Vector,
        job: Job,
        correction: Vector | None = None,
        more: Callable[[], bool] | None = None,
        losses: list[Tensor] | None = None,
    ) -> Vector:
        if job.first_step == 0:
            self.gate.acquire(timeout=60)  # if the others wait for it, the order below is wrong
        return start


def test_no_job_waits_behind_a_long_one() -> None:
    trainer = plain()
    held = Held(trainer.model, trainer.task, LocalRule())
    with one_thread(), WorkerLanes(trainer.model, [held], workers=2) as lanes:
        assert lanes.free == lanes.capacity == 4
        load(lanes, trainer.model.snapshot(), 4)
        assert lanes.free == 0
        done: list[int] = []
        made = 0
        while len(done) < 4:
            finished = lanes.collect()
            assert finished is not None
            done += finished.jobs.tolist()
            made += finished.steps_done.steps
            if len(done) == 3:
                held.gate.release()
        assert lanes.collect() is None
    assert done[-1] == 0
    assert made == 1 + 2 + 3 + 4
