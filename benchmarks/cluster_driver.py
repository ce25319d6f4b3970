"""What the driver of a cluster costs, on Ray; and 10,000 runs on 1,000 workers that are simulated.

    python benchmarks/cluster_driver.py [--out FILE.json]

Costs are processor time of the driver's process, all threads. Each kind of message comes through
Ray from a worker that does nothing else, and is taken to where a run of one machine would have left
it. Ray listens on all interfaces: run this where nobody else can reach them.

The simulated workers have virtual time: they answer after the times that ResNet-20 took on an H200
(`benchmarks/results/gpu.json`). Everything but Ray is the driver's own code, with its real files.
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import resource
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import torch
from measurement import Document, heading, write

from favano.cluster.driver import Driver
from favano.cluster.gathering import Gathering
from favano.cluster.messages import Advanced, Began, Ended, Message, Order, SavedPack
from favano.cluster.packs import PackedRun, Slot, make_packs
from favano.cluster.preparation import prepare
from favano.records import history_to_csv, summary_to_json, write_together
from favano.records.folder import HISTORY, SUMMARY
from favano.results import Result
from favano.run.checkpoints import Checkpoints
from favano.run.data import load_data
from favano.run.inputs import RunInputs
from favano.run.progress import Silence
from favano.specification.presets import resolve
from favano.specification.spec import Spec, make_spec

MODEL = 272_474  # parameters of ResNet-20
WORKERS, RUNS = 1000, 10_000
MESSAGES, RESULTS, ROWS = 2000, 200, 100
MEBIBYTE = 1 << 20
Make = Callable[[], Message | None]
GPU = Path(__file__).parent / "results" / "gpu.json"


def specs_of(count: int) -> list[Spec]:
    """Short runs on digits, each a specification, as in `favano reproduce`."""
    keys = {"clients": 10, "selected": 3, "local_steps": 4, "horizon": 100.0}
    return [resolve(make_spec({**keys, "seed": seed})) for seed in range(count)]


def a_result(rows: int) -> Result:
    """The result of one seed, with so many evaluations and a model as large as ResNet-20."""
    import favano

    made = favano.simulate("favano", "digits", clients=10, selected=3, local_steps=4, horizon=100.0)
    many = [made.rows[0]] * rows
    return replace(made, rows=many, keys={}, traced=None, _spec=None, _states={})


def with_model(result: Result) -> Result:
    """A result of its own, with a model."""
    states = {0: {"weight": torch.ones(MODEL)}}
    return replace(result, rows=list(result.rows), summary=replace(result.summary), _states=states)


def gathering_of(specs: Sequence[Spec], folder: Path, slots: int) -> tuple[Gathering, list[Any]]:
    """A driver's side, and its packs."""
    prepared = prepare(specs, RunInputs(load_data(specs[0].problem)), {})

    def keep(result: Result) -> None:
        """What `favano reproduce` does with a result that has ended."""
        texts = {HISTORY: history_to_csv(result.rows), SUMMARY: summary_to_json(result.summary)}
        write_together(folder / f"result-{result.spec.run.seed}", texts)
        result.states.clear()

    kept = Checkpoints([folder / f"run-{n}" for n in range(len(specs))], None, keep_last=False)
    gathering = Gathering(
        prepared.results, prepared.kernels, Silence(), keep, False, kept, slots=slots
    )
    places = [Slot(f"node {number}", 1, 0) for number in range(slots)]
    packs = make_packs([PackedRun(n, s, 100) for n, s, _ in prepared.runs], places)
    gathering.begin(packs)
    return gathering, packs


def measured(work: Callable[[], object], count: float) -> float:
    """Milliseconds of processor time for each of so many things."""
    began = process_time()
    work()
    return 1e3 * (process_time() - began) / count


def costs() -> Document:
    """Each kind of message through Ray."""
    import ray

    from favano.cluster.ray_connection import connection
    from favano.cluster.ray_nodes import RayNodes

    with connection("auto") as head, TemporaryDirectory() as name:
        nodes = RayNodes(head, "cpu")
        nodes.settle()

        def answers(make: Callable[[int], Message], count: int) -> Iterator[Message]:
            yield Began(1)
            for number in range(count):
                yield make(number)

        worker = ray.remote(num_returns="streaming", max_retries=0)(answers)

        def through(make: Callable[[int], Message], count: int, results: int = 1) -> float:
            gathering, (pack, *_) = gathering_of(specs_of(results), Path(name), 1)
            stream = worker.remote(make, count)
            nodes.ready([stream], 60.0)  # the worker is there
            nodes.message(stream, "")

            def listen() -> None:
                left = count
                while left:
                    for ready in nodes.ready([stream], 60.0):
                        message = nodes.message(ready, "")
                        assert message is not None
                        gathering.receive(pack, message)
                        left -= 1

            return measured(listen, count)

        def saved(size: int, number: int) -> Message:
            return SavedPack(0, 0, f"seed-0.{number}.checkpoint", os.urandom(size))

        def ended(result: Result, number: int) -> Message:
            return Ended(number, (number,), with_model(result))

        def packs(count: int) -> None:
            for _ in range(count):
                stream = worker.remote(partial(saved, 0), 0)
                while nodes.ready([stream], 60.0) and nodes.message(stream, "") is not None:
                    pass

        small, large = (through(partial(saved, size), 200) for size in (1000, 8 * MEBIBYTE))
        few, many = (
            through(partial(ended, a_result(rows)), RESULTS, RESULTS) for rows in (1, ROWS + 1)
        )
        return {
            "pack_ms": measured(partial(packs, 100), 100),
            "progress_ms": through(lambda number: Advanced("run", 1, 1.0), MESSAGES),
            "checkpoint_ms": small,
            "checkpoint_ms_per_mib": (large - small) / 8,
            "result_ms": few,
            "evaluation_ms": (many - few) / ROWS,
        }


class SimulatedNodes:
    """Workers in virtual time: each answers when it would have, and nobody waits."""

    def __init__(self, workers: int, seconds_per_run: float, start: float, size: int) -> None:
        self._slots = [Slot(f"node {number}", 1, 0) for number in range(workers)]
        self._seconds, self._start, self._size = seconds_per_run, start, size
        self._content = os.urandom(size)
        self._answer, self.now = a_result(ROWS), 0.0
        self._due: list[tuple[float, int]] = []  # times of next messages, and their packs
        self._packs: list[Iterator[tuple[float, Make]]] = []
        self._next: dict[int, Make] = {}
        self.counts: dict[str, int] = {}

    def slots(self) -> list[Slot]:
        return self._slots

    def name(self, node: str) -> str:
        return node

    def start(self, order: Order, slot: Slot) -> int:
        number = len(self._packs)
        self._packs.append(self._answers(order, self.now))
        self._count("packs")
        self._plan(number)
        return number

    def _plan(self, number: int) -> None:
        time, self._next[number] = next(self._packs[number])
        heapq.heappush(self._due, (time, number))

    def _answers(self, order: Order, began: float) -> Iterator[tuple[float, Make]]:
        """Messages of a pack and their times: the runs of a pack are made together."""
        runs = [(number, seed) for number, asked in order.asked.items() for seed in asked.seeds]
        end = began + self._start + len(runs) * self._seconds
        yield began + self._start, partial(Began, 100 * len(runs))
        moments = [(began + self._start + order.progress_every * n, 0)
                   for n in range(1, int((end - began) / order.progress_every))]  # fmt: skip
        between = max(30.0 / len(runs), self._size / order.rate)
        moments += [(began + self._start + between * n, 1 + n)
                    for n in range(1, int((end - began - self._start) / between))]  # fmt: skip
        for time, what in sorted(moments):
            if what:
                number, seed = runs[what % len(runs)]
                name = f"seed-{seed}.{what}.checkpoint"
                yield time, partial(SavedPack, number, seed, name, self._content)
            else:
                yield time, partial(Advanced, "run", 1, 1.0)
        for number, seed in runs:
            yield end, partial(self._ended, number, seed)
        yield end, lambda: None

    def _ended(self, number: int, seed: int) -> Message:
        return Ended(number, (seed,), with_model(self._answer))

    def ready(self, streams: Sequence[int], seconds: float) -> list[int]:
        self.now, number = heapq.heappop(self._due)
        return [number]

    def message(self, stream: int, node: str) -> Message | None:
        message = self._next.pop(stream)()  # made when it comes: workers are elsewhere
        self._count(type(message).__name__)
        if message is not None:
            self._plan(stream)
        return message

    def _count(self, name: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1

    def cancel(self, streams: Sequence[int]) -> None: ...


def simulation() -> Document:
    """The driver with its workers; the docs add Ray's share, messages times their costs."""
    line = json.loads(GPU.read_text())["lines"]
    steps = line["favano-cifar10"]["steps"]  # of one run of FAVANO on CIFAR-10
    per_run = steps / line["resnet20-tf32"]["steps_per_second"]
    start = line["resnet20-tf32"]["start_up"]
    size = models_in_use() * 4 * MODEL
    with TemporaryDirectory() as name:
        began = process_time()
        gathering, packs = gathering_of(specs_of(RUNS), Path(name), WORKERS)
        before = process_time() - began
        nodes = SimulatedNodes(WORKERS, per_run, start, size)
        began = process_time()
        Driver(gathering, nodes, packs).finish()
        seconds = process_time() - began
    return {
        "workers": WORKERS,
        "runs": RUNS,
        "seconds_per_run": per_run,
        "checkpoint_bytes": size,
        "virtual_seconds": nodes.now,
        "messages": nodes.counts,
        "preparing_seconds": before,
        "driver_seconds": seconds,
        "evaluations": ROWS,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def models_in_use() -> int:
    """How many models a checkpoint of FAVANO with 100 clients holds."""
    import favano

    with TemporaryDirectory() as name:
        result = favano.simulate("favano", "digits", horizon=500.0, checkpoints=name,
                                 clients=100, selected=20)  # fmt: skip
        (path, *_) = Path(name).rglob("*.checkpoint")
        weights = sum(tensor.numel() for tensor in result.models[0].values())
        return round(path.stat().st_size / (4 * weights))


def main() -> None:
    """Costs, then the simulation."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, help="write the numbers as JSON")
    parser.add_argument("--part", choices=["ray", "simulation"], help="only this; keep the other")
    options = parser.parse_args()
    kept = options.out is not None and options.out.exists() and options.part is not None
    document: Document = json.loads(options.out.read_text()) if kept else {}
    if options.part != "simulation":
        document["ray"] = costs()
    if options.part != "ray":
        document["simulation"] = simulation()
    print(json.dumps(document, indent=1))
    if options.out:
        write(options.out, document | heading("cluster_driver.py"))


if __name__ == "__main__":
    main()
