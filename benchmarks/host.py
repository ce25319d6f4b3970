"""The host's part of the MNIST table on a GPU: its 120 runs, with launches that do nothing.

    python benchmarks/host.py [--horizon 1000] [--seeds 10] [--repeats 1] [--profile]
                              [--out FILE.json]

The schedules, updates and evaluations are those of `favano reproduce table-2 --device cuda`, on
2,048 lanes, which runs of other methods and networks use there. The network has 50 weights and the
data 1,000 samples, so that what is left is Python, NumPy and the calls of PyTorch. On a GPU each of
those calls launches a kernel, so their number is counted too, in a second pass.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from time import process_time

import torch
from measurement import Document, heading, shown, spread, write
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from favano.engine import RunEvent
from favano.run import engines, runner
from favano.run.samples import Samples
from favano.run.seed_run import SeedRun
from favano.specification.presets import resolve
from favano.specification.spec import changed
from favano.studies.paper.table_2 import table_2
from favano.studies.stopwatch import BenchStopwatch
from favano.training import FlatModel, LaneStack, LaunchResult, StackLanes
from favano.training.roster import Roster

SAMPLES, INPUTS, CLASSES, BATCH, LANES = 1000, 4, 10, 2, 2048
launches = rounds = 0


class Idle(LaneStack):
    """Lanes that train nothing."""

    def _launch(self, lanes: object, count: int, length: int) -> None:
        global launches
        launches += 1

    def launch(self) -> LaunchResult:
        global rounds
        rounds += 1
        return super().launch()


@contextmanager
def idle_lanes(
    flat: FlatModel, runs: Sequence[SeedRun], group: engines.Group, workers: int | None
) -> Iterator[Iterator[RunEvent]]:
    lanes = StackLanes(Idle(flat, [run.trainer for run in runs], LANES))
    yield engines.on_stacks(runs, lanes, engines.MemoryShare(len(runs), 64, 0))


def not_shuffled(roster: Roster, rows: Tensor, epoch: Tensor) -> Tensor:
    return roster.samples[rows]


class Counted(TorchDispatchMode):
    """Counts the calls of PyTorch that compute something."""

    calls = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        Counted.calls += not getattr(function, "is_view", False)
        return function(*args, **(kwargs or {}))


def measure(horizon: float, seeds: int) -> tuple[BenchStopwatch, int]:
    """All runs up to this horizon, and how many updates they make."""
    global launches, rounds
    launches = rounds = 0
    torch.manual_seed(0)
    features, labels = torch.randn(SAMPLES, INPUTS), torch.arange(SAMPLES) % CLASSES
    samples = Samples(features, labels, features[:20], labels[:20], CLASSES)
    keys = {"horizon": horizon, "batch_size": BATCH}
    specs = [resolve(changed(run.spec, keys)) for run in table_2(seeds)]
    watch = BenchStopwatch(process_time)
    model = lambda: nn.Linear(INPUTS, CLASSES)  # noqa: E731
    results = runner.run_together(
        specs, samples, model, progress=watch, on_steps=watch.made, audits=False
    )
    return watch, sum(run.server_steps for result in results for run in result.runs)


def report(horizon: float, seeds: int, seconds: Sequence[float]) -> Document:
    """What the passes took, and the calls of another one."""
    summary: Document = {"cpu_seconds": spread(seconds), "launches_per_round": launches / rounds}
    with Counted():
        watch, updates = measure(horizon, seeds)
    about: Document = {"horizon": horizon, "seeds": seeds, "updates": updates, "rounds": rounds}
    return {**about, "steps": watch.steps, **summary, "calls_per_round": Counted.calls / rounds}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--horizon", type=float, default=1000.0)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--out", type=Path, help="write the result as JSON")
    chosen = parser.parse_args()
    engines._steps = idle_lanes
    Roster.shuffled = not_shuffled
    with cProfile.Profile() if chosen.profile else nullcontext() as profile:
        passes = [measure(chosen.horizon, chosen.seeds) for _ in range(chosen.repeats)]
    watch, updates = passes[0]
    seconds = [run.running for run, _ in passes]
    print(f"{updates:,} updates, {watch.steps:,} local steps, {rounds:,} rounds")
    print(f"{shown(spread(seconds), '.2f')} s of CPU time")
    best, of = 1e6 * min(seconds), f"round of {launches / rounds:.1f} launches"
    print(f"at best {best / updates:.0f} us per update, {best / rounds:.0f} us per {of}")
    if profile is not None:
        pstats.Stats(profile).sort_stats("tottime").print_stats(40)
        return
    summary = report(chosen.horizon, chosen.seeds, seconds)
    print(f"{summary['calls_per_round']:.0f} calls of PyTorch per round")
    if chosen.out:
        write(chosen.out, heading("host.py") | summary)


if __name__ == "__main__":
    main()
