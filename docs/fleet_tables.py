"""The tables of `docs/reference/fleets-study.md`, from `results/fleets/`."""

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
TARGETS: Final = (0.75, 0.9)  # accuracies on the test set
HOUR: Final = 3600.0
COMPARED_AT: Final = 4 * HOUR  # what clients that flip signs do is compared at this time
LARGER: Final = 5000  # the network stands for one so many times as large

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


def first_reached(run: Sequence[Row], target: float) -> Row | None:
    """The first evaluation with at least the target."""
    return next((row for row in run if float(row["accuracy"]) >= target), None)


def studied(variants: Sequence[str]) -> str:
    """Accuracy at the end, and what the targets take, in some variants."""
    history = rows("history")
    lines = [
        [our_methods()[method].title, VARIANTS[variant] or "in full", *_numbers(runs)]
        for method in METHODS
        for variant in variants
        if (runs := runs_of(history, variant, method))
    ]
    headings = ["method", "messages", "accuracy", "worst tenth"]
    headings += [
        f"{unit} to {100 * target:.0f} %" for target in TARGETS for unit in ("hours", "MJ")
    ]
    headings += ["MJ in all", "TB in all", "local steps"]
    return markdown(Sheet("", headings, lines))


def _numbers(runs: Sequence[Sequence[Row]]) -> list[str]:
    last = [run[-1] for run in runs]
    return [
        spread([100 * float(row["accuracy"]) for row in last]),
        spread([100 * float(row["accuracy_worst"]) for row in last]),
        *(cell for target in TARGETS for cell in _costs(runs, target)),
        spread([float(row["energy"]) / 1e6 for row in last], 2),
        spread([LARGER * _bits(row) / 8e12 for row in last], 2),
        f"{mean(float(row['local_steps']) for row in last):,.0f}",
    ]


def _bits(row: Row) -> float:
    return float(row["bits_up"]) + float(row["bits_down"])


def _costs(runs: Sequence[Sequence[Row]], target: float) -> tuple[str, str]:
    """Hours and megajoules to a target, in the seeds that reach it."""
    reached = [row for run in runs if (row := first_reached(run, target)) is not None]
    if not reached:
        return "not reached", "not reached"
    few = "" if len(reached) == len(runs) else f" ({len(reached)} of {len(runs)} seeds)"
    hours = mean(float(row["time"]) / HOUR for row in reached)
    energy = mean(float(row["energy"]) / 1e6 for row in reached)
    return f"{hours:.1f}{few}", f"{energy:.2f}{few}"


def at(run: Sequence[Row], time: float) -> Row:
    """The evaluation at a time."""
    return next(row for row in run if float(row["time"]) == time)


def robust() -> str:
    """Accuracy where one client in ten flips the sign of what it sends."""
    history = rows("history")
    headings = ["method", "all honest", "one in ten flips", "and a trimmed mean"]
    headings += ["worst tenth: all honest", "one in ten flips", "and a trimmed mean"]
    lines = []
    for method in METHODS:
        last = [
            [at(run, COMPARED_AT) for run in runs_of(history, variant, method)]
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
