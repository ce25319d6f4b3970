"""Runs of a small network in float64, by any method, and what is seen of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from favano.aggregation import Aggregator, ClientMemory, Link, ServerChain
from favano.data import BatchStream
from favano.engine import Engine, PlainLoop, RunEvent, ServerVersion
from favano.errors import NonFiniteUpdate
from favano.methods import State
from favano.models.norm import BatchNorm2d
from favano.planning.planned import plan_seed
from favano.quantisation import Codec
from favano.schedule import Schedule
from favano.screening import finite_rows
from favano.training import (
    Finished,
    FlatModel,
    Job,
    LaneStack,
    LocalRule,
    LoopTrainer,
    StackLanes,
    StepsDone,
    Task,
    Work,
    one_thread,
)
from favano.training.loop import mean_loss
from favano.training.optimisers import SGD, Optimiser
from favano.transforms import as_transform
from favano.types import Buffers, Floats, Ints, NonFinite, Stack, Vector
from tests.specs import complete, read_by

CLIENTS = 8
BY_LOSS = f"{Path(__file__).with_name('by_loss.py')}:ByLoss"  # its policy sees values
EACH_ARRIVAL = {"asyncsgd", "asyncsgd-adaptive", "fedasync", "asyncfeded", "asofed"}  # updates


def network(norm: type[nn.Module]) -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 3, 3), norm(3), nn.ReLU(), nn.Flatten(), nn.Linear(3 * 16, 4))


class Problem:
    """One run; all have the same data, each seed its own start, batches and speeds.

    If it is `poisoned`, the first answers of its busiest client have NaN, and are refused.
    """

    def __init__(
        self,
        name: str,
        seed: int = 0,
        *,
        norm: type[nn.Module] = BatchNorm2d,
        codec: Codec | None = None,
        buffers: Buffers = "average",
        poisoned: bool = False,
        device: str = "cpu",
        optimiser: Optimiser = SGD,
        server: Sequence[str] = (),
        keys: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        self.name, self.seed, self.device, self.server = name, seed, device, server
        self.codec, self.buffers, self.poisoned = codec, buffers, poisoned
        usual: dict[str, object] = {"clients": CLIENTS, "selected": 3, "local_steps": 4}
        usual |= {"buffer": 2} if name == "fedbuff" else {}
        usual |= {"horizon": 60.0 if name in EACH_ARRIVAL else 120.0, "learning_rate": 0.1}
        self.spec = complete(**read_by({"algorithm": name, "seed": seed, **usual, **keys}))
        self.planned = plan_seed(self.spec, seed)
        self.method, self.schedule = self.planned.method, self.planned.schedule
        torch.manual_seed(seed)
        self.flat = FlatModel(network(norm), device=device, dtype=torch.float64)
        self.initial = self.flat.snapshot()
        generator = torch.Generator().manual_seed(0)
        images = torch.randn(80, 1, 6, 6, generator=generator, dtype=torch.float64)
        labels = torch.randint(0, 4, (80,), generator=generator)
        parts = [np.arange(10 * client, 10 * client + 10) for client in range(CLIENTS)]
        task = Task(images.to(device), labels.to(device), BatchStream(parts, 4, seed))
        memory = self.method.memory
        step = self.spec.method.local_step if memory else None
        corrected, self.kept = self.method.corrects, optimiser.kept
        rule = LocalRule(corrected=corrected, memory=memory, step=step, optimiser=optimiser)
        sees_loss = "loss" in self.method.policy().sees
        self.trainer = LoopTrainer(self.flat, task, rule, measures_loss=sees_loss)

    def aggregator(self) -> Aggregator[State]:
        """The run, at its beginning. Behind a codec no schedule may grow."""
        link, sizes = None, self.flat.parameter_sizes
        if self.codec is not None:
            streams = np.arange(CLIENTS)
            link = Link(self.codec, sizes, self.schedule, seed=self.seed, streams=streams)
        non_finite: NonFinite = "skip" if self.poisoned else "stop"
        return Aggregator(
            self.method, self.planned.timeline if link is None else self.schedule, self.flat.layout,
            self.rates, self.initial, non_finite=non_finite, link=link,
            memory=ClientMemory(
                self.method, self.flat.layout, kept=self.kept, buffers=self.buffers
            ),
            server=ServerChain(self.method, [as_transform(text) for text in self.server]),
        )  # fmt: skip

    def rates(self, schedule: Schedule, first: int = 0) -> Floats:
        rates, plan = self.planned.rates(schedule), self.schedule
        busiest = np.bincount(plan.client[: plan.jobs]).argmax()
        wrong = (schedule.client == busiest) & (schedule.first_step < 6)
        return (np.where(wrong, np.inf, rates) if self.poisoned else rates)[first:]

    @cached_property
    def alone(self) -> list[Seen]:
        """What the plain loop gives."""
        with one_thread():
            return [seen(event) for event in PlainLoop(self.aggregator(), self.trainer).events()]


class Seen(NamedTuple):
    """Copies of what is known at a moment."""

    version: int
    refused: list[int]
    server: Vector
    held: Stack  # by all clients, (2, n, P): when the version is made, and before the next one
    distances: Tensor  # (2, 2)


def seen(event: ServerVersion) -> Seen:
    clients, times = event.clients, (-np.inf, np.inf)
    held = torch.stack([clients.of(np.arange(CLIENTS), time) for time in times])
    spreads = [clients.spread(event.server, time=time).distances for time in times]
    server = event.server.clone()
    return Seen(event.version, event.refused.tolist(), server, held, torch.stack(spreads))


def seen_of(steps: Iterable[RunEvent], runs: int) -> list[list[Seen]]:
    """All moments of each run; none of them may fail."""
    by_run: list[list[Seen]] = [[] for _ in range(runs)]
    for step in steps:
        if step.event is None:
            continue
        assert not isinstance(step.event, NonFiniteUpdate)
        by_run[step.run].append(seen(step.event))
    return by_run


def same(actual: Sequence[Seen], expected: Sequence[Seen], tolerance: float = 0.0) -> None:
    """Compare two runs; to the bit if nothing else is said."""
    assert [event[:2] for event in actual] == [server_event[:2] for server_event in expected]
    for moment, other in zip(actual, expected, strict=True):
        for a, b in zip(moment[2:], other[2:], strict=True):
            torch.testing.assert_close(a.cpu(), b.cpu(), rtol=tolerance, atol=tolerance)


class Shuffled:
    """Lanes that train as the plain loop does, and finish jobs in an order of their own."""

    def __init__(self, trainers: Sequence[LoopTrainer], capacity: int) -> None:
        self.trainers, self.capacity, self.most = trainers, capacity, 0
        self.waiting: deque[tuple[int, Vector, Job, Vector | None]] = deque()

    @property
    def free(self) -> int:
        return self.capacity - len(self.waiting)

    def load(self, jobs: Ints, models: Stack, task: Ints, work: Work) -> None:
        assert (work.steps > 0).all()
        correction = [None] * len(jobs) if work.correction is None else work.correction
        self.waiting.extend(zip(jobs.tolist(), models, work.jobs(task), correction, strict=True))
        self.most = max(self.most, len(self.waiting))
        assert self.free >= 0

    def launch(self) -> None: ...

    def collect(self) -> Finished | None:
        if not self.waiting:
            return None
        self.waiting.rotate(3)
        number, start, job, correction = self.waiting.pop()
        trainer, losses = self.trainers[job.task], list[Tensor]()
        given = losses if trainer.measures_loss else None
        end = trainer.run(start[: trainer.width], job, correction, losses=given)[None]
        done, mean = StepsDone(job.steps, 0.0), np.array([mean_loss(losses)])
        return Finished(np.array([number]), end, np.array(finite_rows(end)), done, mean)

    def halve(self) -> Ints:
        raise MemoryError


def shuffled(problems: Sequence[Problem], capacity: int) -> Shuffled:
    return Shuffled([problem.trainer for problem in problems], capacity)


def stack_lanes(problems: Sequence[Problem], capacity: int) -> StackLanes:
    trainers = [problem.trainer for problem in problems]
    return StackLanes(LaneStack(problems[0].flat, trainers, capacity))


def on_stacks(problems: Sequence[Problem], capacity: int) -> Engine:
    """The engine as it is on a GPU."""
    aggregators = [problem.aggregator() for problem in problems]
    return Engine(aggregators, stack_lanes(problems, capacity), products=True)


def check_on_stacks(problems: Sequence[Problem], capacity: int, at_once: int) -> None:
    """All runs together equal each of them alone, and nothing is kept."""
    engine = on_stacks(problems, capacity)
    by_run = seen_of(engine.events(at_once=at_once), len(problems))
    for problem, moments in zip(problems, by_run, strict=True):
        same(moments, problem.alone, 1e-10)
    assert engine.kept == 0
