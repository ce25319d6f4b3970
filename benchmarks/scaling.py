"""Cost against the number of clients, and against the horizon.

    python benchmarks/scaling.py [--quick]

FAVANO with s = 20 and K = 20 on the perceptron 784-32-10, batches of 128, trained on one lane
and one thread. Client i holds rows 600 i .. 600 i + 599 of 60,000 synthetic rows, modulo 60,000:
n = 100 is a partition of them, from there on parts overlap (60,000 rows cannot be split over
100,000 clients). A part is a view, as large for every n, so that a local step costs the same by
itself and what grows with n is the simulator. Every sample is a process of its own, which reports
its time and its peak memory; samples of different n take turns.

The third table, with s = 100, trains nothing. It follows the server far enough for versions to pile
up: clients that are asked once in n/s server steps refer to as many different versions.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

SELECTED, LOCAL_STEPS, BATCH, RATE = 20, 20, 128, 0.05
MANY = 100  # selected, where versions pile up
ROWS, PART, INPUTS, CLASSES = 60_000, 600, (1, 28, 28), 10
MODEL_BYTES = 4 * 25_450
CLIENTS = (100, 1_000, 10_000, 100_000)


@dataclass(frozen=True)
class Sample:
    """One process: what it did, seconds, CPU seconds and MiB."""

    updates: int
    jobs: int
    steps: int
    planning: float
    running: float
    cpu: float
    versions: int  # models in memory at the end
    peak: float


def measure(clients: int, updates: int, selected: int, train: bool) -> Sample:
    """So many server steps with n clients, in this process."""
    import numpy as np
    import torch

    from favano.data import BatchStream
    from favano.engine import Aggregator, Engine
    from favano.methods import World
    from favano.methods.clock import Clock
    from favano.methods.favano import Favano
    from favano.models import perceptron
    from favano.schedule import plan
    from favano.timing import two_speeds
    from favano.training import (
        FlatModel,
        LocalRule,
        LoopTrainer,
        SerialLanes,
        Task,
        Work,
        one_thread,
    )
    from favano.types import Stack

    class Idle(LoopTrainer):
        """Trains nothing."""

        def train(self, start: Stack, work: Work) -> Stack:
            return start

    thousand = torch.arange(1000 * 784, dtype=torch.float64).mul(0.618034).frac().float()
    features = thousand.repeat(ROWS // 1000)
    labels = torch.arange(ROWS) % CLASSES
    rows = np.arange(ROWS)
    parts = [rows[first : first + PART] for first in np.arange(clients) * PART % ROWS]
    task = Task(features.view(ROWS, *INPUTS), labels, BatchStream(parts, BATCH, seed=0))
    torch.manual_seed(0)
    model = FlatModel(perceptron(input_shape=INPUTS, classes=CLASSES), device=torch.device("cpu"))

    began = perf_counter()
    fleet = two_speeds(clients)
    method = Favano().bind(World(fleet, LOCAL_STEPS, Clock(selected=selected)))
    policy = method.policy()
    schedule = plan(policy, fleet, horizon=updates * policy.period, seed=0)
    rates = RATE * method.rates(schedule)
    aggregator = Aggregator(method, schedule, model.layout, rates, model.snapshot())
    planned, planned_cpu = perf_counter(), process_time()
    trainer = (LoopTrainer if train else Idle)(model, task, LocalRule())
    runs, kept = Engine([aggregator], SerialLanes([trainer])), 0
    with one_thread():
        for _ in runs.steps(at_once=1):
            kept = runs.kept
    return Sample(
        updates=schedule.updates,
        jobs=schedule.jobs,
        steps=int(schedule.steps[: schedule.jobs].sum()),
        planning=planned - began,
        running=perf_counter() - planned,
        cpu=process_time() - planned_cpu,
        versions=kept,
        peak=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    )


def sample(clients: int, updates: int, selected: int = SELECTED, train: bool = True) -> Sample:
    """The same in a process of its own."""
    arguments = ["--child", *map(str, (clients, updates, selected, int(train)))]
    done = subprocess.run(
        [sys.executable, str(Path(__file__)), *arguments], stdout=subprocess.PIPE, check=True
    )
    return Sample(**json.loads(done.stdout))


def spread(samples: list[Sample], what: Callable[[Sample], float]) -> str:
    """Median and range."""
    values = [what(one) for one in samples]
    return f"{median(values):,.0f} ({min(values):,.0f}..{max(values):,.0f})"


def against_clients(updates: dict[int, int], repeats: int) -> None:
    """Microseconds a local step and peak memory, for each n."""
    taken: dict[int, list[Sample]] = {clients: [] for clients in CLIENTS}
    for _ in range(repeats):
        for clients in CLIENTS:
            taken[clients].append(sample(clients, updates[clients]))
    print(f"\nCost of a local step against the number of clients, s = {SELECTED}")
    print("us = microseconds a local step: median (min..max), server updates included")
    print(f"{'n':>8}{'updates':>9}{'jobs':>8}{'steps':>8}{'us':>18}{'CPU us':>18}", end="")
    print(f"{'planning us':>18}{'peak MiB':>10}")
    for clients, samples in taken.items():
        one = samples[0]
        print(f"{clients:>8,}{one.updates:>9,}{one.jobs:>8,}{one.steps:>8,}", end="")
        print(f"{spread(samples, lambda s: 1e6 * s.running / s.steps):>18}", end="")
        print(f"{spread(samples, lambda s: 1e6 * s.cpu / s.steps):>18}", end="")
        print(f"{spread(samples, lambda s: 1e6 * s.planning / s.steps):>18}", end="")
        print(f"{max(s.peak for s in samples):>10,.0f}", flush=True)


def against_horizon(updates: tuple[int, ...], repeats: int) -> None:
    """Total seconds for each horizon, n = 1,000."""
    taken: dict[int, list[Sample]] = {count: [] for count in updates}
    for _ in range(repeats):
        for count in updates:
            taken[count].append(sample(1_000, count))
    print("\nTotal time against the horizon, n = 1,000; median (min..max)")
    print(f"{'horizon':>8}{'steps':>9}{'ms':>24}{'CPU ms':>24}{'planning ms':>20}{'peak MiB':>10}")
    for count, samples in taken.items():
        print(f"{7 * count:>8,}{samples[0].steps:>9,}", end="")
        print(f"{spread(samples, lambda s: 1e3 * (s.planning + s.running)):>24}", end="")
        print(f"{spread(samples, lambda s: 1e3 * s.cpu):>24}", end="")
        print(f"{spread(samples, lambda s: 1e3 * s.planning):>20}", end="")
        print(f"{max(s.peak for s in samples):>10,.0f}", flush=True)


def memory(updates: tuple[int, ...]) -> None:
    """Peak memory as versions pile up, n = 100,000, nothing trained."""
    print("\nPeak memory against server steps, n = 100,000, s = 100, nothing trained")
    print(f"{'updates':>8}{'versions':>10}{'kept MiB':>10}{'planning s':>12}{'peak MiB':>10}")
    for count in updates:
        one = sample(100_000, count, MANY, train=False)
        kept = one.versions * MODEL_BYTES / 2**20
        print(f"{count:>8,}{one.versions:>10,}{kept:>10,.0f}", end="")
        print(f"{one.planning:>12,.1f}{one.peak:>10,.0f}", flush=True)


def main() -> None:
    """All tables."""
    parser = argparse.ArgumentParser(description="Cost against clients and horizon.")
    parser.add_argument("--quick", action="store_true", help="smaller samples, under 3 minutes")
    parser.add_argument("--child", nargs=4, type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        clients, updates, selected, train = options.child
        print(json.dumps(asdict(measure(clients, updates, selected, bool(train)))))
        return
    quick = options.quick
    # about equally many local steps for each n: a client that is asked rarely makes more of them
    size = 1 if quick else 4
    against_clients({100: 35 * size, 1_000: 16 * size, 10_000: 16 * size, 100_000: 16 * size}, 3)
    against_horizon((8, 16, 32) if quick else (32, 64, 128, 256), 2 if quick else 3)
    memory((100, 300) if quick else (300, 1_500))


if __name__ == "__main__":
    main()
