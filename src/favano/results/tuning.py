"""What a search for settings tried: a row per trial, and the best point of each method."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from favano.records import MetricRecord, best_first, finite, on_edge
from favano.records.table import write_csv
from favano.report.metric_words import heading, with_spread
from favano.report.sheet import Sheet, markdown
from favano.report.table import over
from favano.report.wording import DASH, significant

TRIALS: Final = "trials.csv"


@dataclass(frozen=True)
class Trial:
    """A point of a method that was tried on a rung.

    Args:
        method: its label or name.
        point: values by key.
        rung: 0 for the first.
        time: simulated, that it was tried for.
        values: of the leading metric, by seed; infinite in the bad direction if a run diverged.
    """

    method: str
    point: Mapping[str, object]
    rung: int
    time: float
    values: Mapping[int, float]

    @property
    def key(self) -> tuple[object, ...]:
        """What names its point."""
        return tuple(self.point.items())


@dataclass(frozen=True)
class Tuning:
    """The trials of a search, and what was best.

    Args:
        trials: all that were tried.
        metric: what they are judged by.
        holdout: training samples that were held out to judge them.
    """

    trials: Sequence[Trial]
    metric: MetricRecord
    holdout: int

    @cached_property
    def ranked(self) -> dict[str, list[Trial]]:
        """The points of each method, the best first, each as it was tried last."""
        by_method: dict[str, list[Trial]] = {}
        for trial in self.trials:
            by_method.setdefault(trial.method, []).append(trial)
        return {method: _ranked(trials, self.metric) for method, trials in by_method.items()}

    @property
    def best(self) -> dict[str, dict[str, object]]:
        """The best point of each method: keyword arguments of `favano.simulate`."""
        return {method: dict(trials[0].point) for method, trials in self.ranked.items()}

    @property
    def values(self) -> dict[str, float]:
        """What the best point of each method reached, the mean over seeds."""
        return {method: over(top.values.values()).mean for method, (top, *_) in self.ranked.items()}

    @property
    def edges(self) -> dict[str, list[str]]:
        """Keys whose best value is the smallest or largest tried: a better one may lie beyond."""
        edges = {}
        for method, trials in self.ranked.items():
            top = trials[0].point
            numbers = {key: [t.point[key] for t in trials] for key in top if _is_number(top[key])}
            edges[method] = [
                key
                for key, values in numbers.items()
                if on_edge((float(str(value)) for value in values), float(str(top[key])))
            ]
        return edges

    @property
    def failed(self) -> list[str]:
        """Methods of which every trial diverged."""
        return [method for method, value in self.values.items() if not math.isfinite(value)]

    def warnings(self) -> list[str]:
        """What must be known of the best points, in sentences."""
        sentences = []
        for method, keys in self.edges.items():
            for key in keys if method not in self.failed else ():
                tried = [float(str(trial.point[key])) for trial in self.ranked[method]]
                value = self.best[method][key]
                end = "largest" if float(str(value)) == max(tried) else "smallest"
                more = "larger" if end == "largest" else "smaller"
                sentences.append(
                    f"{method}: the best {key}={value} is the {end} that was tried; try {more} "
                    "ones, too"
                )
        for method in self.failed:
            rule = "try smaller learning rates"
            sentences.append(f"{method}: no trial has a finite {self.metric.name}; {rule}")
        return sentences

    def sheet(self, most: int | None = None) -> Sheet:
        """A table, the best first, with at most so many points of each method."""
        keys = list(dict.fromkeys(key for trial in self.trials for key in trial.point))
        times = sorted({trial.time for trial in self.trials})
        rows, left_out = [], 0
        for trials in self.ranked.values():
            shown = trials[:most]
            left_out += len(trials) - len(shown)
            for trial in shown:
                spread = over(trial.values.values())
                finite = math.isfinite(spread.mean)
                reached = with_spread(self.metric, spread) if finite else "diverged"
                point = [_cell(trial.point.get(key)) for key in keys]
                time = [significant(trial.time)] if len(times) > 1 else []
                rows.append([trial.method, *point, *time, reached])
        seeds = sorted({seed for trial in self.trials for seed in trial.values})
        which = f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
        note = f"On {self.holdout:,} held-out training samples, {which}; the best first."
        note += f" {left_out} others are in {TRIALS}." if left_out else ""
        headings = ["method", *keys, *(["time"] if len(times) > 1 else []), heading(self.metric)]
        return Sheet("Trials", headings, rows, note)

    def to_csv(self) -> str:
        """All trials, one line each; an empty value is of a run that diverged."""
        keys = list(dict.fromkeys(key for trial in self.trials for key in trial.point))
        seeds = list(dict.fromkeys(seed for trial in self.trials for seed in trial.values))
        header = ["method", *keys, "time", *(f"{self.metric.name}, seed {seed}" for seed in seeds)]
        return write_csv(header, (self._cells(trial, keys, seeds) for trial in self.trials))

    def _cells(self, trial: Trial, keys: Sequence[str], seeds: Sequence[int]) -> list[object]:
        values = (trial.values.get(seed, math.nan) for seed in seeds)
        reached = [value if math.isfinite(value) else "" for value in values]
        return [trial.method, *(trial.point.get(key, "") for key in keys), trial.time, *reached]

    def document(self, commands: Mapping[str, str]) -> dict[str, object]:
        """All trials and the best of each method, with the command that runs it, as JSON."""
        tried = [
            {
                "method": trial.method,
                "point": dict(trial.point),
                "time": trial.time,
                "values": {str(seed): finite(value) for seed, value in trial.values.items()},
            }
            for trial in self.trials
        ]
        best = {
            method: {
                "point": point,
                "value": finite(self.values[method]),
                "at_the_edge": self.edges[method],
                "command": commands[method],
            }
            for method, point in self.best.items()
        }
        metric = {"name": self.metric.name, "best": self.metric.best, "unit": self.metric.unit}
        return {"metric": metric, "holdout": self.holdout, "trials": tried, "best": best}

    def __str__(self) -> str:
        """The table of all trials."""
        return markdown(self.sheet())


def _ranked(trials: Sequence[Trial], metric: MetricRecord) -> list[Trial]:
    tried = [(t.key, t.rung, value) for t in trials for value in t.values.values()]
    last = {trial.key: trial for trial in trials}  # of a later rung, if there is one
    return [last[key] for key, _ in best_first(tried, metric.best)]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cell(value: object) -> str:
    return DASH if value is None else f"{value:g}" if isinstance(value, float) else str(value)
