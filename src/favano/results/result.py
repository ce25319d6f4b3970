"""The result of a specification, and of several: what result folders hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import tomli_w

from favano import __version__, records
from favano.data import KNOWN_SHAPES
from favano.errors import (
    BadInput,
    NonFiniteUpdate,
    WriteFailed,
    format_error,
    one_line,
    require,
)
from favano.methods import all_methods, our_methods
from favano.records import (
    ACCURACY,
    AuditRecord,
    BoundRow,
    ClientScores,
    History,
    MetricRecord,
    Participation,
    Row,
    RunRecord,
    Summary,
    as_path,
    best_row,
    final_values,
    leading,
    rows_by_seed,
    run_record,
    up_to,
)
from favano.records.chain import DigestCheck
from favano.records.folder import (
    BOUND,
    HISTORY,
    MODEL,
    PARTICIPATION,
    SPEC,
    SUMMARY,
    folder_name,
)
from favano.report import comparable, disambiguated, remarks_on, title_of
from favano.report.comparison_table import ComparisonTable, latex_table
from favano.report.metric_words import mean_of
from favano.report.notebook_view import results_html
from favano.report.reported_result import Status
from favano.results.adapter_file import write_adapter
from favano.results.digest_check import check_digests
from favano.results.folder_check import (
    check_comparison,
    check_content,
    check_folder,
    check_single,
    is_finished,
)
from favano.results.model_file import models_to_bytes, read_models
from favano.specification.config import spec_tables, stored_keys
from favano.specification.optimiser_words import describe_optimiser
from favano.specification.presets import OWN, resolve
from favano.specification.spec import ALGORITHM, LABEL, Spec, make_spec
from favano.user_classes import only_trusted

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor
    from torch.nn import Module

    from favano.training import TraceReport

State: TypeAlias = "dict[str, Tensor]"


@dataclass(repr=False)
class Result:
    """The evaluations of all seeds, how their runs ended, and the final models.

    It is the content of a result folder, whether it was made here or read.

    Args:
        keys: of the specification, flat, as `spec.toml` has them.
        summary: how it was made, and how its runs ended.
        rows: all evaluations, also those after the horizon.
        bounds: the theory beside it, with `track_bound`.
        participation: who trained the model of the first seed; None if this is not known.
        folder: where it was read; None if it was made here.
        note: in brackets after its name, beside other results of the same method.
        error: what stopped a run.
        interrupted: by Ctrl-C.
        steps_before: local steps that were made before it went on from checkpoints.
        seconds_before: of machine time, for these.
        traced: how gradients were computed; it changes no result.
    """

    keys: Mapping[str, object]
    summary: Summary
    rows: list[Row] = field(default_factory=list)
    bounds: list[BoundRow] = field(default_factory=list)
    participation: Participation | None = None
    folder: Path | None = None
    note: str = ""
    error: NonFiniteUpdate | None = None
    interrupted: bool = False
    steps_before: int = 0
    seconds_before: float = 0.0
    traced: TraceReport | None = None
    _network: Callable[[int], Module] | None = None  # makes the network of a seed
    _spec: Spec | None = None  # None: made of the keys when it is asked for
    _states: dict[int, State] | None = None  # None: read when they are asked for

    @classmethod
    def of(cls, spec: Spec, metrics: tuple[MetricRecord, ...] = (ACCURACY,)) -> Result:
        """The result of a complete specification, before its runs."""
        summary = Summary(
            status="complete",
            metrics=metrics,
            favano=__version__,
            command="favano.simulate",
            optimiser=describe_optimiser(spec),
            title=spec.method.title,
            runs=(),
        )
        return cls(stored_keys(spec), summary, _spec=spec, _states={})

    def noted(self, note: str) -> Result:
        """The same result with another note."""
        return replace(self, note=note)

    def with_spec(self, spec: Spec) -> Result:
        """A copy under another specification, for instance to go on with it."""
        return replace(self, keys=stored_keys(spec), summary=replace(self.summary), _spec=spec)

    @property
    def spec(self) -> Spec:
        """The complete specification; refused if the method is unknown here: nothing is executed.

        It has the parts `problem`, `fleet`, `clock`, `server`, `training`, `run` and `method`, and
        the `policy` that the run named, if it did.
        """
        if self._spec is None:
            name = str(self.keys.get(ALGORITHM, "favano"))
            rule = f"its method {name} is unknown here, or in a file that would be executed"
            require(name in all_methods(), "results", self.folder, rule)
            with only_trusted(()):
                self._spec = resolve(make_spec(self.keys))
        return self._spec

    @property
    def algorithm(self) -> str:
        """The label or name of the method; the name of the folder if it has neither."""
        if self._spec is not None:
            return self._spec.name
        name = str(self.keys.get(ALGORITHM) or (self.folder.name if self.folder else "favano"))
        if ".py:" in name:
            name = name.rpartition(":")[2].lower()
        return str(self.keys.get(LABEL) or name)

    @property
    def name(self) -> str:
        """The label or name of the method, with the note."""
        return self.algorithm + self.note

    @property
    def title(self) -> str:
        """The label of the method or its name in print, with the note."""
        ours = our_methods().get(self.algorithm)
        known = self.summary.title or (self.algorithm if ours is None else ours.title)
        return one_line(self.algorithm if LABEL in self.keys else known) + self.note

    @property
    def horizon(self) -> float | None:
        """The simulated time that the specification asks for."""
        value = self.keys.get("horizon")
        return float(value) if isinstance(value, int | float) else None

    @property
    def status(self) -> Status:
        """How its runs ended.

        `missing` without any evaluation, `partial` until every seed has ended, `diverged` if a seed
        ended without a finite loss or variance, `stopped` if an observer ended one.
        """
        if not self.rows_to_horizon:
            return "missing"
        asked, seen = self.keys.get("seeds"), {row.seed for row in self.rows}
        whole = not isinstance(asked, int) or len(seen) >= asked
        return self.summary.status if whole else "partial"

    @property
    def ended(self) -> bool:
        """Whether every seed reached its end, in whatever state."""
        return self.status in ("complete", "diverged")

    @property
    def metrics(self) -> tuple[MetricRecord, ...]:
        """Those of the problem, the leading one first."""
        return self.summary.metrics

    @property
    def leading(self) -> MetricRecord:
        """The metric that results are compared by."""
        return leading(self.metrics)

    @property
    def runs(self) -> tuple[RunRecord, ...]:
        """The numbers of each seed after its last update, which may be later than the horizon."""
        return self.summary.runs

    @property
    def audit(self) -> AuditRecord | None:
        """Who trained the model of the first seed, with confidence intervals."""
        return self.summary.audit

    @property
    def client_scores(self) -> ClientScores | None:
        """How well the final model of the first seed serves each client."""
        return self.summary.served

    @property
    def rows_to_horizon(self) -> list[Row]:
        """The evaluations up to the horizon, which tables and curves are made of."""
        return self.rows if self.horizon is None else up_to(self.rows, self.horizon)

    @property
    def final_runs(self) -> tuple[RunRecord, ...]:
        """The numbers of each seed at the horizon: those of the last model made by then.

        A round that ends later is in the files, but in no table. For a seed that stopped earlier,
        the numbers of its last evaluation.
        """
        last = {row.seed: row for row in self.rows_to_horizon}
        runs = {seed: run_record(self.algorithm, row, "partial") for seed, row in last.items()}
        for run in self.runs:
            if run.seed not in last or self.horizon is None or run.time <= self.horizon:
                runs[run.seed] = run
            else:
                runs[run.seed] = replace(
                    run_record(self.algorithm, last[run.seed], run.status),
                    wall_seconds=run.wall_seconds,
                    refused_updates=run.refused_updates,
                )
        return tuple(runs[seed] for seed in sorted(runs))

    @property
    def remarks(self) -> list[str]:
        """What is wrong with its final models: that they diverged, or learnt nothing."""
        return remarks_on(self)

    @property
    def accuracy(self) -> list[float]:
        """Accuracy of each seed at the horizon."""
        return self.final(ACCURACY.name)

    def final(self, metric: str | None = None) -> list[float]:
        """The value of each seed at the horizon: of a metric by its name, or of the leading one.

        As in tables: `runs` have the numbers of the last update, which may be later.
        """
        return final_values(self.final_runs, self.metrics, metric)

    @property
    def history(self) -> History:
        """The evaluations of all seeds, as columns."""
        return History.of({self.name: self.rows})

    @property
    def models(self) -> dict[int, State]:
        """The network of each seed, final or the best (keep), without frozen parameters."""
        from favano.training import OF_LOSS

        return {
            seed: {name: tensor for name, tensor in state.items() if not name.startswith(OF_LOSS)}
            for seed, state in self.states.items()
        }

    def kept_row(self, rows: Sequence[Row]) -> tuple[Row, str]:
        """The row of a seed whose model is kept, the `best` or the `last` one."""
        best = best_row(rows, self.leading, self.horizon) if self.keeps_best else None
        return (rows[-1], "last") if best is None else (best, "best")

    @property
    def keeps_best(self) -> bool:
        """Whether `models` are the best ones, chosen on held-out samples, not the last."""
        return self.keys.get("keep") == "best"

    @property
    def kept(self) -> dict[int, Row]:
        """The evaluation of each seed's model in `models`."""
        return {seed: self.kept_row(rows)[0] for seed, rows in rows_by_seed(self.rows).items()}

    def model(self, seed: int | None = None, *, network: Module | None = None) -> Module:
        """The network of a seed, by default the first, with the weights of `models`.

        It is a new object of the class that was trained. A result that was read from a folder knows
        networks by their names; your own are given as `network`, which gets the weights and is
        returned.
        """
        known = self.models
        seed = min(known, default=0) if seed is None else seed
        rule = f"need one of {', '.join(map(str, known))}" if known else "holds no models"
        require(seed in known, "seed", seed, rule)
        made = self._new_network(seed) if network is None else network
        try:
            made.load_state_dict(known[seed])
        except RuntimeError as error:
            rule = f"is not the network that was trained: {format_error(error)}"
            raise BadInput("network", type(made).__name__, rule) from error
        return made

    def _new_network(self, seed: int) -> Module:
        if self._network is not None:
            return self._network(seed)
        from torch.random import fork_rng

        from favano.models.catalogue import build

        name, shape = str(self.keys.get("model")), KNOWN_SHAPES.get(str(self.keys.get("dataset")))
        rule = "was made with a network or data that its files do not hold; give network=..."
        ours = name != OWN and shape is not None
        require(ours, "results", self.folder, rule)
        assert shape is not None
        with fork_rng(devices=[]):
            return build(name, input_shape=shape.inputs, classes=shape.classes)

    @property
    def losses(self) -> dict[int, State]:
        """The final parameters of the loss of each seed, if it has some."""
        from favano.training import OF_LOSS

        own = {
            seed: {
                name.removeprefix(OF_LOSS): tensor
                for name, tensor in state.items()
                if name.startswith(OF_LOSS)
            }
            for seed, state in self.states.items()
        }
        return {seed: state for seed, state in own.items() if state}

    @property
    def states(self) -> dict[int, State]:
        """The final models by seed, as files have them: with the parameters of the loss."""
        if self._states is None:
            assert self.folder is not None
            seeds = [run.seed for run in self.runs]
            self._states = {} if self.lean else read_models(self.folder / MODEL, seeds)
        return self._states

    @property
    def lean(self) -> bool:
        """Whether only numbers are kept, no models: so it is with runs of `favano reproduce`."""
        return self.summary.cost is not None

    @cached_property
    def digests(self) -> DigestCheck:
        """Whether its rows are those that were written. Nothing is executed or computed again."""
        summary = self.summary
        stated = {"data": summary.data, "files": summary.trace, "source": summary.source}
        known = stated if summary.favano is not None else None
        return check_digests(self.keys, self.rows, self.runs, known)

    def files(self) -> dict[str, str | bytes]:
        """All files of the result folder, by name."""
        files: dict[str, str | bytes] = {
            SPEC: tomli_w.dumps(spec_tables(self.keys)),
            HISTORY: records.history_to_csv(self.rows),
            SUMMARY: records.summary_to_json(self.summary),
        }
        if not self.lean:
            files[MODEL] = models_to_bytes(self.states, self.summary.favano)
        if self.bounds:
            files[BOUND] = records.bounds_to_csv(self.bounds)
        # An observer that ends a run leaves out a part of its schedule.
        if self.participation is not None and self.summary.status != "stopped":
            files[PARTICIPATION] = records.participation_to_json(self.participation)
        return files

    def save(self, folder: Path | str) -> Path:
        """Write a result folder; another run, or more of the same run, is not replaced."""
        path = as_path("folder", folder)
        _save({path: self})
        return path

    def save_adapter(self, path: Path | str, seed: int | None = None) -> Path:
        """Write what was trained, without frozen parameters, as safetensors under its own names.

        Of a seed, by default the only one. `favano.load_adapter(network, path)` reads it.
        """
        seed = min(self.models) if seed is None and len(self.models) == 1 else seed
        known = ", ".join(map(str, self.models)) or "none, since no models are kept"
        if seed not in self.models:
            raise BadInput("seed", seed, f"need one of {known}")
        return write_adapter(path, self.models[seed])

    def plot(self, metric: str | None = None, along: str = "time") -> Figure:
        """A matplotlib figure; arguments as in `Comparison.plot`."""
        return Comparison([self]).plot(metric, along)

    def report(
        self, page: Path | str, title: str | None = None, *, target: float | None = None
    ) -> Path:
        """Write one self-contained HTML page; the target as in `Comparison.table`."""
        return Comparison([self]).report(page, title, target=target)

    def __repr__(self) -> str:
        """One line, as notebooks show it, with the remarks."""
        runs = self.final_runs
        words = ", ".join(filter(None, [mean_of(self.final(), self.metrics), self.status]))
        seeds = ", ".join(str(run.seed) for run in runs)
        return f"Result({self.name}: {words}, seeds: {seeds or 'none'}{_said(self)})"

    def _repr_html_(self) -> str:
        """In a notebook: its final numbers and the curve of its leading metric."""
        return results_html([self])


@dataclass
class Comparison:
    """The results of several methods, or all those in a folder."""

    results: list[Result]

    @property
    def history(self) -> History:
        """The evaluations of all methods and seeds, as columns; the first is the method."""
        return History.of({result.name: result.rows for result in self.results})

    @property
    def accuracy(self) -> dict[str, list[float]]:
        """Accuracy of each seed at the horizon, by method."""
        return self.final(ACCURACY.name)

    def final(self, metric: str | None = None) -> dict[str, list[float]]:
        """The value of each seed at the horizon, by method: of a metric, or of the leading one."""
        return {result.name: result.final(metric) for result in self.results}

    @property
    def models(self) -> dict[str, dict[int, State]]:
        """The final network of each seed, by method."""
        return {result.name: result.models for result in self.results}

    def save(self, folder: Path | str) -> Path:
        """Write one result folder per method."""
        path = as_path("folder", folder)
        check_comparison(path)
        _save({path / folder_name(result.name): result for result in self.results})
        return path

    def report(
        self, page: Path | str, title: str | None = None, *, target: float | None = None
    ) -> Path:
        """Write one self-contained HTML page; the target as in `table`."""
        from favano.report.page import write_page

        path, results = as_path("page", page), disambiguated(self.results)
        write_page(results, path, title=title or title_of(results), target=target)
        return path

    def table(self, target: float | None = None) -> ComparisonTable:
        """Final numbers, paired differences with intervals, and costs, as columns.

        The target is a value of the leading metric, such as 0.8 for an accuracy; by default 90 % of
        the best final value. The table says how much time, steps and bits each method took to it.
        """
        return ComparisonTable.of(self._of_one_setting(), target)

    def to_latex(self, target: float | None = None) -> str:
        """The same as a LaTeX `tabular`, in words and rounded, which needs booktabs."""
        return latex_table(self._of_one_setting(), target)

    def plot(self, metric: str | None = None, along: str = "time") -> Figure:
        """A matplotlib figure of means over seeds with bands of one standard deviation.

        Args:
            metric: of the problem, or `loss`, `variance`, `potential` or `contributed_steps`; by
                default the leading metric.
            along: `time`, `server_steps`, `local_steps`, `bits`, or `energy` where it is counted.
        """
        from favano.report.result_figure import result_figure

        return result_figure(self._of_one_setting(), metric, along)

    def _of_one_setting(self) -> list[Result]:
        results = disambiguated(self.results)
        alike = bool(results) and comparable(results)
        rule = "differ in data, fleet or horizon: need results of one setting"
        require(alike, "results", ", ".join(result.name for result in results), rule)
        return results

    def __str__(self) -> str:
        """Methods with their leading metric at the horizon, over seeds as in tables; remarks."""
        return "\n".join(
            f"{result.name}: {mean_of(result.final(), result.metrics)}{_said(result)}"
            for result in self.results
            if result.runs
        )

    def _repr_html_(self) -> str:
        """In a notebook: the final table and curves of each setting."""
        return results_html(self.results)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C ended a run; `result` holds the evaluations made until then."""

    def __init__(self, result: Result | Comparison) -> None:
        super().__init__("the run was interrupted; the evaluations made so far are in .result")
        self.result = result


def _said(result: Result) -> str:
    """The remarks on a result, behind its numbers."""
    return "".join(f"; it {remark}" for remark in result.remarks)


def _save(results: Mapping[Path, Result]) -> None:
    """Write result folders, or none of them if one is taken."""
    for path, result in results.items():
        if (path / SPEC).exists():
            check_folder(path, result.spec)
        check_single(path)
        check_content(path, result.summary)
    for path, result in results.items():
        write_result(path, result)


def write_result(folder: Path, result: Result, command: str | None = None) -> None:
    """Write all files of a result beside the old ones, then put them in place together.

    A partial or stopped result does not replace a complete one. `command` is what made it, if not
    `favano.simulate`.
    """
    if result.summary.status in ("partial", "stopped") and is_finished(folder):
        rule = f"holds a complete result, which a {result.summary.status} one does not replace"
        raise WriteFailed(f"out={folder}: {rule}")
    if command is not None:
        result.summary.command = command
    records.write_together(folder, result.files())
