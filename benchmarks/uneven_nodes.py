"""Methods on the same four uneven nodes on loopback: accuracy on the digits against wall time.

PYTHONPATH=src:. python benchmarks/uneven_nodes.py [favano fedavg fedbuff] [--seconds 300]
                                                   [--out FILE.json]
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from flwr.app import ArrayRecord, MetricRecord
from measurement import Document, heading, write
from tests.flower.federation import Federation, federation, nodes

from favano.flower import AsyncStrategy, DataPartition, LocalTraining
from favano.flower.clock import WallClock
from favano.methods import make_method

PACES = (0.02, 0.05, 0.2, 1.0)  # seconds of a step
OPTIONS: Mapping[str, Mapping[str, object]] = {"fedbuff": {"buffer": 2}}
TICK, STEPS, RATE, SPLIT = 2.0, 20, 0.5, "dirichlet:0.5"


class Over(Exception):
    """The time of a method is over."""


class Limited:
    """A clock that ends the federation after some seconds."""

    def __init__(self, seconds: float) -> None:
        self._clock, self._most = WallClock(), seconds

    def elapsed(self) -> float:
        return self._clock.now()

    def now(self) -> float:
        if self.elapsed() > self._most:
            raise Over
        return self.elapsed()

    def wait(self, until: float) -> None:
        self._clock.wait(until)


def start_node(loopback: Federation, part: int) -> None:
    words = ["--partition", f"{part}/{len(PACES)}", "--split", SPLIT, "--pace", str(PACES[part])]
    loopback.start(sys.executable, "-m", "favano", "join", loopback.address, *words)


def measured(name: str, seconds: float) -> Document:
    """One method for some seconds: time and accuracy of its versions."""
    share = DataPartition(0, len(PACES), split=SPLIT)
    module, (images, labels) = share.network(), share.test_data()
    rows: list[tuple[int, float, float]] = []

    def evaluate(number: int, arrays: ArrayRecord) -> MetricRecord:
        time = clock.elapsed()
        module.load_state_dict(arrays.to_torch_state_dict())
        with torch.no_grad():
            right = module(images).argmax(dim=1) == labels
        rows.append((number, round(time, 2), round(float(right.double().mean()), 4)))
        return MetricRecord({"accuracy": rows[-1][2]})

    strategy = AsyncStrategy(
        make_method(name, OPTIONS.get(name, {})),
        clients=len(PACES), selected=2, local_steps=STEPS, learning_rate=RATE,
        tick=TICK if name.startswith("favano") else None,
        grace=TICK / 2 if name.startswith("favano") else 0.0,
        local=LocalTraining(batch_size=16), step_seconds=0.3,
    )  # fmt: skip
    with TemporaryDirectory() as folder, federation(Path(folder)) as loopback:
        loopback.start_superlink()
        loopback.link.submit()
        for part in range(len(PACES)):
            start_node(loopback, part)
        with loopback.served() as run:
            nodes(run.grid, len(PACES))
            clock = Limited(seconds)
            try:
                start = ArrayRecord(module.state_dict())
                strategy.start(run.grid, start, 10**6, evaluate_fn=evaluate, clock=clock)
            except Over:
                pass
    return {"method": name, "load": round(os.getloadavg()[0], 1), "rows": rows}


def at(rows: list[tuple[int, float, float]], time: float) -> str:
    """Round and accuracy of the newest version at a time."""
    number, _, accuracy = [row for row in rows if row[1] <= time][-1]
    return f"{accuracy:.3f} (round {number})"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("methods", nargs="*", default=["favano", "fedavg", "fedbuff"])
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--out", type=Path, help="write the results as JSON")
    asked = parser.parse_args()
    documents: list[Document] = []
    for name in asked.methods:
        documents.append(measured(name, asked.seconds))
        rows = documents[-1]["rows"]
        assert isinstance(rows, list)
        places = [asked.seconds * share for share in (0.1, 0.25, 0.5, 1.0)]
        print(name, *(f"{place:.0f} s: {at(rows, place)}" for place in places), flush=True)
        if asked.out:
            write(asked.out, heading("uneven_nodes.py") | {"paces": PACES, "runs": documents})


if __name__ == "__main__":
    main()
