"""One result folder, read."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

from pydantic import ValidationError

from favano.errors import BadInput, need
from favano.metrics import Row, from_csv, up_to
from favano.report.participation import Participation, read_participation
from favano.report.summary import Run, Summary, read_summary, runs_at

Specification: TypeAlias = Mapping[str, object]
Status: TypeAlias = Literal["complete", "diverged", "partial", "missing"]
Parsed = TypeVar("Parsed")

TITLES: Mapping[str, str] = {
    "favano": "FAVANO",
    "favano-delta": "FAVANO-delta",
    "fedavg": "FedAvg",
    "quafl": "QuAFL",
    "fedbuff": "FedBuff",
    "asyncsgd": "AsyncSGD",
    "asyncsgd-adaptive": "AsyncSGD-adaptive",
    "fedasync": "FedAsync",
    "asyncfeded": "AsyncFedED",
    "aafl": "AAFL",
    "fedfix": "FedFix",
    "scaffold": "SCAFFOLD",
    "fedprox": "FedProx",
    "fednova": "FedNova",
}


@dataclass(frozen=True)
class Result:
    """What one folder holds of one algorithm.

    Args:
        name: the algorithm, with what sets it apart in brackets where another result shares it.
        folder: where it was read.
        spec: everything that defines the run.
        rows: the evaluations of every seed up to the horizon.
        runs: the numbers of each seed at the horizon, those of the last model made by then: a round
            that ends later is in the files, and in no table. Of a seed that did not come so far,
            the numbers of its last evaluation.
        status: `missing` without any evaluation, `partial` until every seed is through,
            `diverged` where a seed ended without a finite loss or variance.
        command: what reproduces it, where the summary says so.
        version: the favano that wrote it, where the summary says so.
        tools: what it was trained with, where the summary says so: PyTorch, and kernels of a CPU.
        participation: who trained the model, where the folder says so.
        verdict: whom the method favours, where the summary says so.
    """

    name: str
    folder: Path
    spec: Specification
    rows: tuple[Row, ...]
    runs: tuple[Run, ...]
    status: Status
    command: str | None = None
    version: str | None = None
    tools: str = ""
    participation: Participation | None = None
    verdict: str | None = None

    @property
    def algorithm(self) -> str:
        """The algorithm's name on the command line; the folder's where the file names none."""
        return str(self.spec.get("algorithm", self.folder.name))

    @property
    def title(self) -> str:
        """The name as the papers spell it."""
        return TITLES.get(self.algorithm, self.algorithm) + self.name[len(self.algorithm) :]

    @property
    def ended(self) -> bool:
        """Whether every seed came to its end, however it ended."""
        return self.status in ("complete", "diverged")

    @property
    def horizon(self) -> float | None:
        """The simulated time the run was asked to reach."""
        return horizon_of(self.spec)


def horizon_of(spec: Specification) -> float | None:
    """The simulated time that a specification asks for."""
    value = spec.get("horizon")
    return float(value) if isinstance(value, int | float) else None


def within(spec: Specification, rows: Iterable[Row]) -> tuple[Row, ...]:
    """The rows up to the horizon, or all where none is given."""
    horizon = horizon_of(spec)
    return tuple(rows if horizon is None else up_to(rows, horizon))


def read_result(folder: Path) -> Result:
    """Read one result folder; a file that cannot be read is refused by name."""
    need(folder.is_dir(), "results", folder, "no such folder")
    spec = parse(folder / "spec.toml", tomllib.loads)
    summary: Summary | None = None
    rows: tuple[Row, ...] = ()
    if (folder / "summary.json").exists():
        summary = parse(folder / "summary.json", read_summary)
    if (folder / "history.csv").exists():
        rows = within(spec, parse(folder / "history.csv", from_csv))
    participation: Participation | None = None
    if (folder / "participation.json").exists():
        participation = parse(folder / "participation.json", read_participation)
    return Result(
        name=str(spec.get("algorithm", folder.name)),
        folder=folder,
        spec=spec,
        rows=rows,
        runs=runs_at(horizon_of(spec), rows, summary.runs if summary else ()),
        status=_status(spec, summary, rows),
        command=summary.command if summary else None,
        version=summary.favano if summary else None,
        tools=tools(summary.torch, summary.kernels) if summary else "",
        participation=participation,
        verdict=summary.audit.verdict if summary and summary.audit else None,
    )


def tools(torch: str | None, kernels: str | None) -> str:
    """What a run was trained with, in words; empty where nothing is said."""
    said = {"PyTorch": torch, "kernels": kernels}
    return ", ".join(f"{what} {which}" for what, which in said.items() if which)


def _status(spec: Specification, summary: Summary | None, rows: tuple[Row, ...]) -> Status:
    """Complete or diverged only where the summary says so and every seed asked for is there."""
    if not rows:
        return "missing"
    seen, asked = {row.seed for row in rows}, spec.get("seeds")
    whole = not isinstance(asked, int) or len(seen) >= asked
    return summary.status if summary and whole else "partial"


def parse(path: Path, parser: Callable[[str], Parsed]) -> Parsed:
    """Read a file of a result; one that cannot be read is refused by name."""
    try:
        return parser(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput("results", path, f"cannot be read: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise BadInput("results", path, f"is damaged: {place or 'file'}: {first['msg']}") from error
    except KeyError as error:
        raise BadInput("results", path, f"is damaged: no column {error}") from error
    except TypeError as error:
        raise BadInput("results", path, "is damaged: a row is cut short") from error
    except ValueError as error:
        raise BadInput("results", path, f"is damaged: {error}") from error
