"""Runs as programs: the same models as the plain loop, with a trainer on the CPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np
import pytest
from torch import nn

from favano.aggregation import Aggregator
from favano.engine import PlainLoop, ServerVersion, WaveEngine, plan_run
from favano.methods import State, our_methods
from favano.training import LoopTrainer, Work, one_thread
from favano.types import Ints, Stack
from tests.engine.networks import Problem, Seen, same, seen, seen_of

OTHERS = ("scaffold", "asofed")  # clients keep more than a model
LINEAR = [name for name, method in our_methods().items() if method.linear and name not in OTHERS]


class LoopJobs:
    """Trains jobs between rows as the plain loop does; it reads nothing that was not drawn."""

    orders_at_once = 40

    def __init__(self, trainers: Sequence[LoopTrainer]) -> None:
        self.trainers = trainers
        self.drawn = range(0)
        self.trained = 0

    def orders(self, task: int, work: Work) -> Ints:
        return np.ones_like(work.steps)

    def load(self, start: Ints, end: Ints, task: Ints, work: Work) -> None:
        self.rows, self.jobs = (start, end), work.jobs(task)

    def draw(self, first: int, last: int) -> None:
        assert first == self.drawn.stop
        self.drawn = range(first, last)

    def train(self, models: Stack, first: int, last: int) -> None:
        for number in range(first, last):
            assert number in self.drawn
            job, (start, end) = self.jobs[number], (int(rows[number]) for rows in self.rows)
            models[end] = self.trainers[job.task].run(models[start].clone(), job, None)
            self.trained += 1


@cache
def problem(name: str, seed: int) -> Problem:
    """Without buffers, which programs do not know."""
    return Problem(name, seed, norm=nn.Identity)


def reported(moments: Sequence[Seen], expected: Sequence[Seen]) -> None:
    """The moments equal those of the plain loop; of versions made at one time only the last."""
    versions = {moment.version for moment in moments}
    assert len(versions) > 0.5 * len(expected)
    same(moments, [moment for moment in expected if moment.version in versions], 1e-10)


def waves(problems: Sequence[Problem], runs: Sequence[Aggregator[State]]) -> WaveEngine:
    """All versions are evaluated, but for those that another follows at the same time."""
    programs = [plan_run(run, run.schedule.time[run.version + 1 :]) for run in runs]
    planned = [program for program in programs if program is not None]
    assert len(planned) == len(runs)
    return WaveEngine(
        runs, planned, LoopJobs([case.trainer for case in problems]), lambda models: models[:, :2]
    )


@pytest.mark.quick("quafl", "aafl")
@pytest.mark.parametrize("name", LINEAR)
def test_programs_equal_the_plain_loop(name: str) -> None:
    problems = [problem(name, 0), problem("favano", 1), problem("quafl", 2)]
    runs = [case.aggregator() for case in problems]
    with one_thread():
        by_run = seen_of(waves(problems, runs).events(), len(problems))
    for moments, case in zip(by_run, problems, strict=True):
        reported(moments, case.alone)


def moments_of(case: Problem, run: Aggregator[State]) -> Iterator[ServerVersion]:
    for step in waves([case], [run]).events():
        assert isinstance(step.event, ServerVersion)
        yield step.event


@pytest.mark.parametrize("name", ["favano", "quafl", "fedbuff", "asyncsgd"])
def test_programs_and_the_loop_go_on_from_each_other_s_snapshots(name: str) -> None:
    """From moments in the middle, and from the last two; what is remembered is equal to the bit."""
    case = problem(name, 3)
    with one_thread():
        run, looped = case.aggregator(), case.aggregator()
        ours = {event.version: event.snapshot() for event in moments_of(case, run)}
        loops = {e.version: e.snapshot() for e in PlainLoop(looped, case.trainer).events()}
        versions = sorted(ours)
        assert versions[-2:] == [case.schedule.updates - 2, case.schedule.updates - 1]
        for version in (versions[0], versions[len(versions) // 2], versions[-2]):
            assert ours[version].memory.beginning == loops[version].memory.beginning
            for snapshot, in_waves in ((loops[version], True), (ours[version], False),
                                       (ours[version], True)):  # fmt: skip
                again = case.aggregator()
                again.restore(snapshot)
                events = (
                    moments_of(case, again) if in_waves else PlainLoop(again, case.trainer).events()
                )
                moments = [seen(event) for event in events]
                assert moments[0].version == version
                reported(moments, [m._replace(refused=[]) for m in case.alone[version + 1 :]])
