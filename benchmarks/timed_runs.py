"""Runs of several methods that share the lanes: start-up, captured graphs and steady state apart.

    python benchmarks/timed_runs.py [KEY=VALUE ...] [--algorithms a,b] [--data-dir DIR]
    python benchmarks/timed_runs.py [KEY=VALUE ...] --table-2 SEEDS [--data-dir DIR] [--profile]

Prints one line of JSON. `first_update_at` is a time of day, for those who know when this process
was started. Images per second are counted from the first update on; the steady rate is that of
the middle half, where the lanes are full. With `--profile`, which slows the host down,
`gpu_seconds` is how long kernels ran.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from time import perf_counter, time
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from favano.planning.planned import plan_seeds
from favano.run.runner import run_together
from favano.run.samples import Samples, load_samples, make_task, named_model
from favano.specification.presets import resolve
from favano.specification.spec import Spec, changed, make_spec
from favano.studies.paper.table_2 import table_2
from favano.studies.stopwatch import BenchStopwatch
from favano.studies.workload import image_count


class TimedGraph(torch.cuda.CUDAGraph):
    """A CUDA graph that counts its captures and times them."""

    captured, seconds, _began = 0, 0.0, 0.0

    def capture_begin(self, *given: Any, **options: Any) -> None:
        self._began = perf_counter()
        super().capture_begin(*given, **options)

    def capture_end(self) -> None:
        super().capture_end()
        TimedGraph.captured += 1
        TimedGraph.seconds += perf_counter() - self._began


def images_per_step(specs: Sequence[Spec], samples: Samples) -> float:
    """Samples in a mini-batch, the mean over all."""
    planned = [seed for spec in specs for seed in plan_seeds(spec, samples.traits)]
    images = sum(
        image_count(seed.schedule, make_task(seed.spec, seed.seed, seed.fleet, samples).batches)
        for seed in planned
    )
    return images / sum(seed.schedule.used_steps for seed in planned)


def measure(specs: Sequence[Spec], data_dir: Path | None, profiled: bool) -> dict[str, float]:
    samples = load_samples(specs[0], data_dir)
    watch = BenchStopwatch()
    model = named_model(specs[0], samples)
    kernels = profile(activities=[ProfilerActivity.CUDA]) if profiled else None
    with kernels or nullcontext():
        results = run_together(
            specs, samples, model, progress=watch, on_steps=watch.made, audits=False
        )
    events = kernels.key_averages() if kernels is not None else []
    per_step = images_per_step(specs, samples)
    return {
        "runs": sum(spec.run.seeds for spec in specs),
        "updates": sum(run.server_steps for result in results for run in result.runs),
        "steps": watch.steps,
        "images": per_step * watch.steps,
        "first_update_at": time() - (perf_counter() - watch.updates[0]),
        "start_up": watch.start_up,
        "running": watch.running,
        "graphs": TimedGraph.captured,
        "capturing": TimedGraph.seconds,
        "steps_per_second": watch.rate,
        "images_per_second": per_step * watch.rate,
        "steady_steps_per_second": watch.steady_rate,
        "steady_images_per_second": per_step * watch.steady_rate,
        **({"gpu_seconds": sum(e.self_device_time_total for e in events) / 1e6} if events else {}),
    }


def _read_by(spec: Spec, keys: Mapping[str, str]) -> dict[str, str]:
    """The keys without those that FedBuff in blocks, which runs all clients, would refuse."""
    in_blocks = getattr(spec.method, "buffer_mode", None) == "block"
    return {key: value for key, value in keys.items() if not (in_blocks and key == "selected")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("keys", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--algorithms", default="favano")
    parser.add_argument("--table-2", type=int, metavar="SEEDS")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--profile", action="store_true", help="needs a GPU")
    asked = parser.parse_args()
    keys = dict(pair.split("=", 1) for pair in asked.keys)
    if asked.table_2:
        specs = [
            resolve(changed(run.spec, _read_by(run.spec, keys))) for run in table_2(asked.table_2)
        ]
    else:
        named = asked.algorithms.split(",")
        specs = [resolve(make_spec({**keys, "algorithm": name})) for name in named]
    torch.cuda.CUDAGraph = TimedGraph  # type: ignore[misc]
    print(json.dumps(measure(specs, asked.data_dir, asked.profile)), flush=True)


if __name__ == "__main__":
    main()
