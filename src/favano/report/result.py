"""A result as read from one folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, TypeAlias, TypeVar

from favano import records
from favano.errors import require
from favano.methods import our_methods
from favano.records import (
    ACCURACY,
    ClientScores,
    MetricRecord,
    Participation,
    Row,
    RunRecord,
    Summary,
    final_values,
    history_from_csv,
    leading,
    metric_names,
    participation_from_json,
    read_file,
    run_record,
    specification_from_toml,
    summary_from_json,
    undescribed,
    up_to,
)
from favano.records.folder import HISTORY, PARTICIPATION, SPEC, SUMMARY
from favano.report.digest_check import NOT_CHECKED, DigestCheck, check_digests

Specification: TypeAlias = Mapping[str, object]
Status: TypeAlias = records.Status | Literal["missing"]
Parsed = TypeVar("Parsed")
PLAIN: Final = "plain SGD"


def title_of_method(name: str) -> str:
    """The title of a built-in method; any other name unchanged."""
    method = our_methods().get(name)
    return name if method is None else method.title


@dataclass(frozen=True)
class Result:
    """The result of one method, with what its files say; None where they say nothing.

    Args:
        name: of the method, with a note in brackets if it has several results.
        folder: where it was read.
        spec: everything that defines the run.
        rows: the evaluations of every seed up to the horizon.
        runs: the numbers of each seed at the horizon, those of the last model made by then; a round
            that ends later is in the files, but in no table. For a seed that stopped earlier, the
            numbers of its last evaluation.
        status: `missing` without any evaluation, `partial` until every seed has ended, `diverged`
            if a seed ended without a finite loss or variance, `stopped` if an observer ended one.
        command: the command that reproduces it.
        version: the version of favano that wrote it.
        tools: PyTorch and CPU kernels used for training.
        optimiser: of clients and server.
        participation: who trained the model.
        verdict: which clients the method favours.
        method_title: the method's name in print.
        metrics: of the problem, the leading one first.
        served: how well the final model serves each client.
        test_samples: that the scores are of.
        digests: whether its rows are those that were written.
    """

    name: str
    folder: Path
    spec: Specification
    rows: tuple[Row, ...]
    runs: tuple[RunRecord, ...]
    status: Status
    command: str | None = None
    version: str | None = None
    tools: str = ""
    optimiser: str = PLAIN
    participation: Participation | None = None
    verdict: str | None = None
    method_title: str | None = None
    metrics: tuple[MetricRecord, ...] = (ACCURACY,)
    served: ClientScores | None = None
    test_samples: int | None = None
    digests: DigestCheck = NOT_CHECKED

    def __repr__(self) -> str:
        """One line, as notebooks show it."""
        from favano.report.metric_words import mean_of, one_line  # which know results

        seeds, mean = (run.seed for run in self.runs), mean_of(self.final(), self.metrics)
        return one_line(self.name, mean, self.status, seeds)

    @property
    def leading(self) -> MetricRecord:
        """The metric that results are compared by."""
        return leading(self.metrics)

    def final(self, metric: str | None = None) -> list[float]:
        """The value of each seed at the horizon: of a metric by its name, or of the leading one."""
        return final_values(self.runs, self.metrics, metric)

    @property
    def algorithm(self) -> str:
        """The label or name of the method; the name of the folder if it has neither."""
        return algorithm_of(self.spec, self.folder.name)

    @property
    def title(self) -> str:
        """The label of the method, or its name in print."""
        labelled = "label" in self.spec
        title = self.algorithm if labelled else self.method_title or title_of_method(self.algorithm)
        return title + self.name[len(self.algorithm) :]

    @property
    def ended(self) -> bool:
        """Whether every seed reached its end, in whatever state."""
        return self.status in ("complete", "diverged")

    @property
    def horizon(self) -> float | None:
        """The simulated time that the specification asks for."""
        return horizon_of(self.spec)


def algorithm_of(spec: Specification, otherwise: str) -> str:
    """What a specification calls its method: a label, a name, or the name in `file.py:Name`."""
    name = str(spec.get("algorithm", otherwise))
    if ".py:" in name:
        name = name.rpartition(":")[2].lower()
    return str(spec.get("label") or name)


def horizon_of(spec: Specification) -> float | None:
    """The simulated time that a specification asks for."""
    value = spec.get("horizon")
    return float(value) if isinstance(value, int | float) else None


def within(spec: Specification, rows: Iterable[Row]) -> tuple[Row, ...]:
    """The rows up to the horizon, or all rows if there is none."""
    horizon = horizon_of(spec)
    return tuple(rows if horizon is None else up_to(rows, horizon))


def read_result(folder: Path) -> Result:
    """Read one result folder; the error of a file that cannot be read names it."""
    require(folder.is_dir(), "results", folder, "no such folder")
    spec = read_file(folder / SPEC, specification_from_toml)
    name = algorithm_of(spec, folder.name)
    summary = _read_if_there(folder / SUMMARY, summary_from_json)
    history = _read_if_there(folder / HISTORY, history_from_csv) or []
    rows = within(spec, history)
    metrics = summary.metrics if summary else undescribed(metric_names(history))
    for metric in metrics:
        held = all(metric.name in row.metrics for row in history)
        require(held, "results", folder / HISTORY, f"lacks a metric of {SUMMARY}: {metric.name}")
    return Result(
        name=name,
        folder=folder,
        spec=spec,
        rows=rows,
        runs=_runs(name, horizon_of(spec), rows, summary.runs if summary else ()),
        status=_status(spec, summary, rows),
        command=summary.command if summary else None,
        version=summary.favano if summary else None,
        tools=tools(summary.torch, summary.kernels) if summary else "",
        optimiser=(summary.optimiser if summary else None) or PLAIN,
        participation=_read_if_there(folder / PARTICIPATION, participation_from_json),
        verdict=summary.audit.verdict if summary and summary.audit else None,
        method_title=summary.title if summary else None,
        served=summary.served if summary else None,
        test_samples=summary.test_samples if summary else None,
        metrics=metrics,
        digests=check_digests(spec, history, summary.runs, _digests(summary))
        if summary
        else check_digests(spec, history, (), None),
    )


def _digests(summary: Summary) -> Mapping[str, str | None]:
    return {"data": summary.data, "files": summary.trace, "source": summary.source}


def _read_if_there(path: Path, parser: Callable[[str], Parsed]) -> Parsed | None:
    return read_file(path, parser) if path.exists() else None


def tools(torch: str | None, kernels: str | None) -> str:
    """What a run was trained with, in words; empty if unknown."""
    said = {"PyTorch": torch, "kernels": kernels}
    return ", ".join(f"{what} {which}" for what, which in said.items() if which)


def _status(spec: Specification, summary: Summary | None, rows: tuple[Row, ...]) -> Status:
    """The status in the summary if every seed is there, else partial or missing."""
    if not rows:
        return "missing"
    seen, asked = {row.seed for row in rows}, spec.get("seeds")
    whole = not isinstance(asked, int) or len(seen) >= asked
    return summary.status if summary and whole else "partial"


def _runs(
    algorithm: str, horizon: float | None, rows: Iterable[Row], said: Iterable[RunRecord]
) -> tuple[RunRecord, ...]:
    """The numbers of each seed at the horizon.

    `said` holds the runs of the summary, which may have ended after the horizon.
    """
    last = {row.seed: row for row in rows}
    runs = {seed: run_record(algorithm, row, "partial") for seed, row in last.items()}
    for run in said:
        if run.seed not in last or horizon is None or run.time <= horizon:
            runs[run.seed] = run
        else:
            runs[run.seed] = replace(
                run_record(algorithm, last[run.seed], run.status),
                wall_seconds=run.wall_seconds,
                refused_updates=run.refused_updates,
            )
    return tuple(runs[seed] for seed in sorted(runs))
