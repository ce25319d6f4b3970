"""Cost against the number of clients, and against the horizon.

    python benchmarks/scaling.py [--quick] [--out FILE.json]

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
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter, process_time

from measurement import Document, heading, shown, spread, write

SELECTED, LOCAL_STEPS, BATCH, RATE = 20, 20, 128, 0.05
MANY = 100  # selected, where versions pile up
ROWS, PART, INPUTS, CLASSES = 60_000, 600, (1, 28, 28), 10
MODEL_BYTES = 4 * 25_450
PERIOD = 7  # simulated time between two server steps


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

    from favano.aggregation import Aggregator
    from favano.data import BatchStream
    from favano.engine import Engine
    from favano.methods import Context
    from favano.methods.clock import ServerClock
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
    method = Favano().bind(Context(fleet, LOCAL_STEPS, ServerClock(selected=selected)))
    policy = method.policy()
    schedule = plan(policy, fleet, horizon=updates * policy.period, seed=0)
    rates = RATE * method.rates(schedule)
    aggregator = Aggregator(method, schedule, model.layout, rates, model.snapshot())
    planned, planned_cpu = perf_counter(), process_time()
    trainer = (LoopTrainer if train else Idle)(model, task, LocalRule())
    runs, kept = Engine([aggregator], SerialLanes([trainer])), 0
    with one_thread():
        for _ in runs.events(at_once=1):
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


def per_step(samples: Sequence[Sample], what: Callable[[Sample], float]) -> dict[str, float]:
    """Microseconds per local step."""
    return spread([1e6 * what(timing) / timing.steps for timing in samples])


def against_clients(updates: dict[int, int], repeats: int) -> list[Document]:
    """The cost of a local step and peak memory for each n; server updates are included."""
    taken: dict[int, list[Sample]] = {clients: [] for clients in updates}
    for _ in range(repeats):
        for clients, count in updates.items():
            taken[clients].append(sample(clients, count))
    return [
        {
            "clients": clients,
            "updates": samples[0].updates,
            "jobs": samples[0].jobs,
            "steps": samples[0].steps,
            "step_us": per_step(samples, lambda timing: timing.running),
            "cpu_us": per_step(samples, lambda timing: timing.cpu),
            "planning_us": per_step(samples, lambda timing: timing.planning),
            "peak_mib": max(timing.peak for timing in samples),
        }
        for clients, samples in taken.items()
    ]


def against_horizon(updates: Sequence[int], repeats: int) -> list[Document]:
    """The whole time for each horizon, n = 1,000."""
    taken: dict[int, list[Sample]] = {count: [] for count in updates}
    for _ in range(repeats):
        for count in updates:
            taken[count].append(sample(1_000, count))
    return [
        {
            "horizon": PERIOD * count,
            "steps": samples[0].steps,
            "ms": spread([1e3 * (timing.planning + timing.running) for timing in samples]),
            "cpu_ms": spread([1e3 * timing.cpu for timing in samples]),
            "planning_ms": spread([1e3 * timing.planning for timing in samples]),
            "peak_mib": max(timing.peak for timing in samples),
        }
        for count, samples in taken.items()
    ]


def memory(updates: Sequence[int]) -> list[Document]:
    """Peak memory as versions pile up, n = 100,000, nothing trained."""
    taken = {count: sample(100_000, count, MANY, train=False) for count in updates}
    return [
        {
            "updates": count,
            "versions": timing.versions,
            "kept_mib": timing.versions * MODEL_BYTES / 2**20,
            "planning_s": timing.planning,
            "peak_mib": timing.peak,
        }
        for count, timing in taken.items()
    ]


def show(title: str, rows: Sequence[Document]) -> None:
    """A table on the screen; ranges as median (min..max)."""
    print(f"\n{title}")
    print("".join(f"{name:>26}" for name in rows[0]))
    for row in rows:
        cells = (shown(cell) if isinstance(cell, dict) else f"{cell:,.0f}" for cell in row.values())
        print("".join(f"{cell:>26}" for cell in cells), flush=True)


def main() -> None:
    """All tables."""
    parser = argparse.ArgumentParser(description="Cost against clients and horizon.")
    parser.add_argument("--quick", action="store_true", help="smaller samples, under 3 minutes")
    parser.add_argument("--out", type=Path, help="write the tables as JSON")
    parser.add_argument("--child", nargs=4, type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        clients, updates, selected, train = options.child
        print(json.dumps(asdict(measure(clients, updates, selected, bool(train)))))
        return
    quick = options.quick
    # about equally many local steps for each n: a client that is asked rarely makes more of them
    updates = {100: 35, 1_000: 16, 10_000: 16, 100_000: 16}
    size = 1 if quick else 4
    clients = against_clients({n: size * count for n, count in updates.items()}, 3)
    show(f"Against the number of clients, s = {SELECTED}", clients)
    horizons = against_horizon((8, 16, 32) if quick else (32, 64, 128, 256), 2 if quick else 3)
    show("Against the horizon, n = 1,000", horizons)
    versions = memory((100, 300) if quick else (300, 1_500))
    show(f"Against server steps, n = 100,000, s = {MANY}, nothing trained", versions)
    if options.out:
        document = {"clients": clients, "horizons": horizons, "versions_kept": versions}
        write(options.out, heading("scaling.py") | document)


if __name__ == "__main__":
    main()
