"""Result folders made by hand."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import pytest
import tomli_w

from favano.records import Row, history_to_csv
from favano.specification.config import spec_tables

# folder, specification, accuracies by seed and evaluation, status ("" for no summary)
Writer: TypeAlias = Callable[[Path, Mapping[str, object], Sequence[Sequence[float]], str], Path]


def a_row(seed: int, step: int, accuracy: float) -> Row:
    """Evaluation number `step`, at time 10 times that; a gigabit a step each way."""
    bits = step * 10**9
    return Row(
        seed,
        10.0 * step,
        step,
        5 * step,
        bits,
        bits,
        1 - accuracy,
        {"accuracy": accuracy},
        2.0 * step,
        0,
        step,
    )


def a_run(row: Row) -> dict[str, object]:
    """What the summary says of a run that ended with `row`."""
    return {
        "algorithm": "any",
        "seed": row.seed,
        "accuracy": row.accuracy,
        "loss": row.loss,
        "variance": row.variance,
        "time": row.time,
        "server_steps": row.server_step,
        "local_steps": row.local_steps,
        "bits_up": row.bits_up,
        "bits_down": row.bits_down,
        "wall_seconds": 1.5,
        "mean_model_accuracy": None,
        "mean_model_loss": None,
        "refused_updates": 0,
    }


def a_participation(fast: float = 0.5) -> dict[str, object]:
    """Three clients, one of them fast, whose weight is `fast`; five jobs."""
    slow = (1 - fast) / 2
    return {
        "seed": 0,
        "clients": 3,
        "speeds": [
            {"name": "fast", "clients": 1, "contacts": 3, "steps": 9, "weight": fast},
            {"name": "slow", "clients": 2, "contacts": 2, "steps": 3, "weight": 2 * slow},
        ],
        "listed": {
            "client": [0, 1, 2],
            "speed": [1, 0, 1],
            "contacts": [1, 3, 1],
            "steps": [1, 9, 2],
            "staleness": [2.0, 0.5, 1.0],
            "weight": [slow, fast, slow],
        },
        "staleness": {
            "width": 1,
            "counts": [[2, 1, 0], [0, 1, 1]],
            "mean": 0.9,
            "median": 1.0,
            "most": 2,
        },
    }


def add_participation(folder: Path, fast: float = 0.5) -> None:
    (folder / "participation.json").write_text(json.dumps(a_participation(fast)))


def with_charts() -> dict[str, object]:
    """The same with availability and jobs: one used, one lost, one not used, one under way."""
    availability = {
        "horizon": 20.0,
        "share": [1.0, 2 / 3, 0.5, 1 / 3],
        "mean": 0.625,
        "median": 0.6,
        "client": [1, 0, 2],
        "available": [1.0, 0.6, 0.25],
        "digits": ["9999", "9940", "9000"],
    }
    jobs = {
        "begin": 0.0, "end": 20.0, "horizon": 20.0, "at_work": 3,
        "client": [1, 0, 2], "speed": [0, 1, 1],
        "row": [0, 1, 0, 2], "start": [0.0, 0.0, 10.0, 5.0], "finish": [10.0, 12.0, 16.0, 20.0],
        "steps": [5, 2, 4, 1], "outcome": [0, 2, 1, 3], "used_by": [1, 0, 0, 0],
        "server_steps": [10.0], "server_steps_made": 1,
    }  # fmt: skip
    return {**a_participation(), "availability": availability, "jobs": jobs}


def a_served(fast: float = 0.9) -> dict[str, object]:
    """The same three clients, served by the final model; the fast one by `fast`."""
    return {
        "seed": 0,
        "metric": "accuracy",
        "mean": (fast + 1.3) / 3,
        "worst": 0.5,
        "speeds": [
            {"name": "fast", "clients": 1, "mean": fast, "worst": fast},
            {"name": "slow", "clients": 2, "mean": 0.65, "worst": 0.5},
        ],
        "client": [0, 1, 2],
        "score": [0.5, fast, 0.8],
    }


def add_served(folder: Path, fast: float = 0.9) -> None:
    path = folder / "summary.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "served": a_served(fast)}))


@pytest.fixture(scope="session")
def write() -> Writer:
    def writer(
        folder: Path,
        spec: Mapping[str, object],
        accuracies: Sequence[Sequence[float]],
        status: str = "complete",
    ) -> Path:
        folder.mkdir(parents=True)
        whole = {"dataset": "digits", "horizon": 20.0, "seeds": len(accuracies), **spec}
        (folder / "spec.toml").write_text(tomli_w.dumps(spec_tables(whole)))
        histories = [
            [a_row(seed, step, value) for step, value in enumerate(values)]
            for seed, values in enumerate(accuracies)
        ]
        rows = [row for history in histories for row in history]
        (folder / "history.csv").write_text(history_to_csv(rows))
        if status:
            summary = {
                "status": status,
                "favano": "0.1.0",
                "command": f"favano run --algorithm {spec['algorithm']}",
                "runs": [a_run(history[-1]) for history in histories],
            }
            (folder / "summary.json").write_text(json.dumps(summary))
        return folder

    return writer


@pytest.fixture
def compared(tmp_path: Path, write: Writer) -> Path:
    """FAVANO and FedAvg complete, FedBuff partial without participation, QuAFL missing."""
    parent = tmp_path / "compared"
    write(
        parent / "fedavg", {"algorithm": "fedavg"}, [[0.1, 0.4, 0.5], [0.1, 0.5, 0.6]], "complete"
    )
    write(
        parent / "favano", {"algorithm": "favano"}, [[0.1, 0.6, 0.8], [0.1, 0.6, 0.7]], "complete"
    )
    add_participation(parent / "favano", 1 / 3)
    add_participation(parent / "fedavg", 0.5)
    write(parent / "fedbuff", {"algorithm": "fedbuff", "seeds": 2}, [[0.1, 0.9]], "partial")
    (parent / "quafl").mkdir()
    (parent / "quafl" / "spec.toml").write_text('[run]\nseeds = 2\n[[method]]\nname = "quafl"\n')
    return parent
