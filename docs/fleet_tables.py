"""The tables of `docs/fleets-study.md`, from `results/fleets/`."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import mean, stdev
from typing import Final

from favano.methods import our_methods
from favano.report.sheet import Sheet, markdown

RESULTS: Final = Path(__file__).parent.parent / "results" / "fleets"
METHODS: Final = ("favano", "favano-delta", "fedbuff", "fedavg")
VARIANTS: Final[Mapping[str, str]] = {
    "plain": "",
    "qsgd": "`qsgd:8`",
    "flipped": "no",
    "trimmed": "`trimmed:0.2`",
}
TARGET: Final = 0.9  # accuracy on the test set
HOUR: Final = 3600.0

Row = Mapping[str, str]


def rows(name: str) -> list[Row]:
    """The rows of a result file."""
    with (RESULTS / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def runs_of(history: Iterable[Row], variant: str, method: str) -> list[list[Row]]:
    """The evaluations of each seed, in their order."""
    seeds: dict[str, list[Row]] = {}
    for row in history:
        if (row["variant"], row["method"]) == (variant, method):
            seeds.setdefault(row["seed"], []).append(row)
    return list(seeds.values())


def spread(values: Sequence[float], digits: int = 1) -> str:
    """Mean and standard deviation over seeds.

    >>> spread([1.0, 2.0, 3.0])
    '2.0 ± 1.0'
    """
    return f"{mean(values):.{digits}f} ± {stdev(values):.{digits}f}"


def first_reached(run: Sequence[Row]) -> Row | None:
    """The first evaluation with at least the target."""
    return next((row for row in run if float(row["accuracy"]) >= TARGET), None)


def studied(variants: Sequence[str]) -> str:
    """Accuracy at the end of the day, and what the target takes, in some variants."""
    history = rows("history")
    lines = [
        [our_methods()[method].title, VARIANTS[variant] or "in full", *_numbers(runs)]
        for method in METHODS
        for variant in variants
        if (runs := runs_of(history, variant, method))
    ]
    what = f"to {100 * TARGET:.0f} %"
    headings = [
        "method", "messages", "accuracy", "worst tenth", f"hours {what}", f"MJ {what}",
        "MJ in a day", "GB in a day", "local steps in a day",
    ]  # fmt: skip
    return markdown(Sheet("", headings, lines))


def _numbers(runs: Sequence[Sequence[Row]]) -> list[str]:
    last = [run[-1] for run in runs]
    reached = [row for run in runs if (row := first_reached(run)) is not None]
    few = "" if len(reached) == len(runs) else f" ({len(reached)} of {len(runs)} seeds)"
    hours = [float(row["time"]) / HOUR for row in reached]
    energy = [float(row["energy"]) / 1e6 for row in reached]
    to_target = [_mean(hours) + few, _mean(energy) + few] if reached else ["never"] * 2
    return [
        spread([100 * float(row["accuracy"]) for row in last]),
        spread([100 * float(row["accuracy_worst"]) for row in last]),
        *to_target,
        _mean([float(row["energy"]) / 1e6 for row in last]),
        _mean([(float(row["bits_up"]) + float(row["bits_down"])) / 8e9 for row in last]),
        f"{mean(float(row['local_steps']) for row in last):,.0f}",
    ]


def _mean(values: Sequence[float]) -> str:
    return spread(values) if len(values) > 1 else f"{values[0]:.1f}"


def robust() -> str:
    """Accuracy where one client in ten flips the sign of what it sends."""
    history = rows("history")
    headings = ["method", "all honest", "one in ten flips", "and a trimmed mean"]
    headings += ["worst tenth: all honest", "one in ten flips", "and a trimmed mean"]
    lines = []
    for method in METHODS:
        last = [
            [run[-1] for run in runs_of(history, variant, method)]
            for variant in ("plain", "flipped", "trimmed")
        ]
        cells = [
            spread([100 * float(row[key]) for row in ends]) if ends else "not run"
            for key in ("accuracy", "accuracy_worst")
            for ends in last
        ]
        lines.append([our_methods()[method].title, *cells])
    return markdown(Sheet("", headings, lines))


def weights() -> str:
    """How much the tenths by availability count in the final model."""
    by_method: dict[str, dict[int, list[float]]] = {}
    for row in rows("weights"):
        tenths = by_method.setdefault(row["method"], {})
        tenths.setdefault(int(row["tenth"]), []).append(100 * float(row["weight"]))
    headings = ["method", "least available half", "6th and 7th tenth", "8th and 9th", "most"]
    lines = []
    for method in METHODS:
        tenths = by_method[method]
        seeds = range(len(tenths[0]))
        cells = [
            spread([sum(tenths[tenth][seed] for tenth in group) for seed in seeds])
            for group in (range(5), (5, 6), (7, 8), (9,))
        ]
        lines.append([our_methods()[method].title, *cells])
    fair = ["fair", "50", "20", "20", "10"]
    return markdown(Sheet("", headings, [fair, *lines]))


def searched() -> str:
    """The rates that the search tried."""
    lines: list[list[str]] = []
    for method in METHODS:
        tried = [row for row in rows("tuning") if row["method"] == method]
        best = max(tried, key=lambda row: float(row["accuracy"]))
        shown = ", ".join(
            f"{'**' if row is best else ''}{row['rates']}: {100 * float(row['accuracy']):.1f}"
            f"{'**' if row is best else ''}"
            for row in tried
        )
        lines.append([our_methods()[method].title, shown])
    return markdown(Sheet("", ["method", "client / server rate: accuracy"], lines))


TABLES: Final[Mapping[str, Callable[[], str]]] = {
    "fleets": partial(studied, ("plain", "qsgd")),
    "fleets-robust": robust,
    "fleets-weights": weights,
    "fleets-search": searched,
}
