"""Results of specifications."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from torch import Tensor

from favano.errors import NonFiniteUpdate
from favano.planning.comparison import folder_name
from favano.planning.planned import Planned
from favano.records import (
    ACCURACY,
    AuditRecord,
    BoundRow,
    ClientScores,
    History,
    MetricRecord,
    Row,
    RunRecord,
    Status,
    as_path,
    final_values,
    up_to,
)
from favano.report.metric_words import mean_of, one_line
from favano.specification.spec import Spec, required
from favano.training import NO_TRACE, OF_LOSS, TraceReport
from favano.types import Kernels


@dataclass
class Result:
    """The evaluations of all seeds, how their runs ended, and the final models."""

    spec: Spec
    metrics: tuple[MetricRecord, ...] = (ACCURACY,)
    status: Status = "complete"
    rows: list[Row] = field(default_factory=list)
    runs: list[RunRecord] = field(default_factory=list)
    models: dict[int, dict[str, Tensor]] = field(default_factory=dict)  # of the network, by seed
    losses: dict[int, dict[str, Tensor]] = field(default_factory=dict)  # parameters of the loss
    bounds: list[BoundRow] = field(default_factory=list)  # with track_bound
    audit: AuditRecord | None = None  # of the first seed, if it ended
    client_scores: ClientScores | None = None  # of the first seed's final model
    error: NonFiniteUpdate | None = None  # what stopped a run
    first: Planned | None = None  # the plan of the first seed
    interrupted: bool = False  # by Ctrl-C
    kernels: Kernels | None = None  # of the local steps; None on a GPU
    data: str | None = None  # digest of training and test data
    test_samples: int | None = None  # that scores are of; None: those of the clients
    code: Mapping[str, str] | None = None  # digests of an own network, loss and metrics, by name
    steps_before: int = 0  # local steps that were made before it went on from checkpoints
    seconds_before: float = 0.0  # of machine time, for these
    traced: TraceReport = NO_TRACE  # how gradients were computed; it changes no result

    @property
    def accuracy(self) -> list[float]:
        """Accuracy of each seed at the horizon."""
        return self.final(ACCURACY.name)

    def final(self, metric: str | None = None) -> list[float]:
        """The value of each seed at the horizon: of a metric by its name, or of the leading one.

        As in tables: `runs` have the numbers of the last update, which may be later.
        """
        last = {row.seed: row for row in up_to(self.rows, required(self.spec.run.horizon))}
        return final_values(last.values(), self.metrics, metric)

    @property
    def states(self) -> dict[int, dict[str, Tensor]]:
        """The final models by seed, as files have them: with the parameters of the loss."""
        return {
            seed: {
                **{f"{OF_LOSS}{name}": loss for name, loss in self.losses.get(seed, {}).items()},
                **model,
            }
            for seed, model in self.models.items()
        }

    def add_state(self, seed: int, state: Mapping[str, Tensor]) -> None:
        """Add the final model of a seed."""
        own = [name for name in state if name.startswith(OF_LOSS)]
        self.models[seed] = {name: tensor for name, tensor in state.items() if name not in own}
        if own:
            self.losses[seed] = {name.removeprefix(OF_LOSS): state[name] for name in own}

    @property
    def history(self) -> History:
        """The evaluations of all seeds, as columns."""
        return History.of({self.spec.name: self.rows})

    def save(self, folder: Path | str) -> Path:
        """Write a result folder; another run, or more of the same run, is not replaced."""
        path = as_path("folder", folder)
        _save({path: self})
        return path

    def report(self, page: Path | str, title: str | None = None) -> Path:
        """Write one self-contained HTML page."""
        return Comparison([self]).report(page, title)

    def __repr__(self) -> str:
        """One line, as notebooks show it."""
        seeds, mean = (run.seed for run in self.runs), mean_of(self.final(), self.metrics)
        return one_line(self.spec.name, mean, self.status, seeds)


@dataclass
class Comparison:
    """The results of several methods on the same seeds."""

    results: list[Result]

    @property
    def history(self) -> History:
        """The evaluations of all methods and seeds, as columns; the first is the method."""
        return History.of({result.spec.name: result.rows for result in self.results})

    def save(self, folder: Path | str) -> Path:
        """Write one result folder per method."""
        from favano.run.result_folder import check_comparison

        path = as_path("folder", folder)
        check_comparison(path)
        _save({path / folder_name(result.spec.name): result for result in self.results})
        return path

    def report(self, page: Path | str, title: str | None = None) -> Path:
        """Write one self-contained HTML page."""
        from favano.report import collect, title_of, write_page

        path = as_path("page", page)
        with TemporaryDirectory() as folder:
            results = collect([self.save(folder)])
            write_page(results, path, title=title or title_of(results))
        return path

    def __str__(self) -> str:
        """Methods with the mean of their leading metric at the horizon, as in tables."""
        return "\n".join(
            f"{result.spec.name}: {mean_of(result.final(), result.metrics)}"
            for result in self.results
            if result.runs
        )


def _save(results: Mapping[Path, Result]) -> None:
    """Write result folders, or none of them if one is taken."""
    from favano.run.result_folder import check_content, check_folder, write_result

    for path, result in results.items():
        check_folder(path, result.spec)
        check_content(path, result)
    for path, result in results.items():
        write_result(path, result, "favano.simulate")


class Interrupted(KeyboardInterrupt):
    """Ctrl-C ended a run; `result` holds the evaluations made until then."""

    def __init__(self, result: Result | Comparison) -> None:
        super().__init__("the run was interrupted; the evaluations made so far are in .result")
        self.result = result
