"""A device, real or synthetic data, and a time limit: where benchmarks run favano in processes."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter, time
from typing import TypedDict, cast

import numpy as np
from measurement import Document, call, last_document

from favano.data import load
from favano.data.cache import Arrays
from favano.data.catalogue import KNOWN
from favano.studies.bench import SYNTHETIC

HERE = Path(__file__).parent
TESTS = 10_000  # synthetic test images
TINY = {"clients": "12", "selected": "2", "local_steps": "2", "batch_size": "4"}
TINY_ROWS, TINY_TESTS = 480, 16

Keys = dict[str, str]


@dataclass
class Lab:
    """Runs favano until the deadline; tiny runs on tiny data if `quick`."""

    device: str
    quick: bool
    deadline: float  # a time of day
    folder: Path  # for data and results
    sources: dict[str, str] = field(default_factory=dict)  # of the data sets used

    @property
    def left(self) -> float:
        """Seconds left."""
        return self.deadline - time()

    def data(self, dataset: str) -> Path:
        """The folder that holds the data set's folder: real if there is one, else synthetic."""
        real = Path(os.environ.get("FAVANO_DATA", ""))
        if not self.quick and (real / dataset).is_dir():
            if dataset not in self.sources:
                load(dataset, data_dir=real)  # decoded once per machine; not a part of any line
            self.sources[dataset] = "files"
            return real
        self.sources[dataset], root = "synthetic", self.folder / "data"
        if not (root / dataset).is_dir():
            rows, tests = (TINY_ROWS, TINY_TESTS) if self.quick else (None, TESTS)
            write_images(root / dataset, dataset, rows, tests)
        return root

    def keys(self, horizon: float | None, **others: str) -> Keys:
        """The keys of runs; a CPU has one precision only."""
        if self.device == "cpu":
            others.pop("precision", None)
        until = {} if horizon is None else {"horizon": f"{horizon:g}"}
        return {**others, **(TINY if self.quick else {}), **until}

    def whole(self, dataset: str, words: list[str]) -> Document:
        """A command of favano from start to end, with an empty folder for its results."""
        where = ["--device", self.device, "--data-dir", str(self.data(dataset))]
        out = tempfile.mkdtemp(dir=self.folder)
        command = [sys.executable, "-m", "favano", *words, *where, "--out", out, "--json"]
        began = perf_counter()
        output = call(command, self.left, accept=lambda output: output.startswith("{"))
        seconds = perf_counter() - began
        runs = runs_of(last_document(output))
        return {
            "command": " ".join(["favano", *words, *where[:2]]),
            "seconds": seconds,
            "runs": len(runs),
            "complete": sum(run["status"] == "complete" for run in runs),
            "steps": sum(int(run["local_steps"] or 0) for run in runs),
        }

    def timed(
        self,
        dataset: str,
        keys: Keys,
        words: list[str],
        variables: Mapping[str, str] | None = None,
    ) -> Document:
        """Runs in one process: start-up, captured graphs and steady state apart."""
        given = words_of(keys | {"device": self.device}) + words
        command = [sys.executable, str(HERE / "timed_runs.py"), *given]
        began = time()
        output = call([*command, "--data-dir", str(self.data(dataset))], self.left, variables)
        document = last_document(output)
        first = cast(float, document.pop("first_update_at")) - began
        command = ["python", "benchmarks/timed_runs.py", *given]
        return {"command": " ".join(command), "until_first_update": first, **document}


class Run(TypedDict):
    """What a command prints about a run."""

    status: str
    local_steps: int | None


def runs_of(document: Document) -> list[Run]:
    """The runs of `run`, `compare` or `reproduce`."""
    parts = cast("list[Document]", document.get("experiments", [document]))
    return [run for part in parts for run in cast("list[Run]", part["runs"])]


def words_of(keys: Keys) -> list[str]:
    return [f"{key}={value}" for key, value in keys.items()]


def flags_of(keys: Keys) -> list[str]:
    return [word for key, value in keys.items() for word in (f"--{key.replace('_', '-')}", value)]


def write_images(folder: Path, dataset: str, rows: int | None, tests: int) -> None:
    """Decoded random images of a data set's shape."""
    (all_rows, *shape), classes = SYNTHETIC[dataset], KNOWN[dataset].classes
    rows, generator = rows or all_rows, np.random.default_rng(0)
    train, test = (
        generator.integers(0, 256, (count, *shape), dtype=np.uint8) for count in (rows, tests)
    )
    arrays = Arrays(train, np.arange(rows) % classes, test, np.arange(tests) % classes, classes)
    folder.mkdir(parents=True)
    for name, array in arrays._asdict().items():
        np.save(folder / f"{name}.npy", array)
