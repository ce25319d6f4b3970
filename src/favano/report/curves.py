"""Mean curves over seeds with a band of one standard deviation, ready to be drawn."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from favano.records import LOSS, MetricRecord, Row, leading, rows_by_seed
from favano.report.metric_words import heading
from favano.report.reported_result import ReportedResult
from favano.types import Floats

AXES: Mapping[str, Callable[[Row], float]] = {
    "time": lambda row: row.time,
    "server_steps": lambda row: row.server_step,
    "local_steps": lambda row: row.local_steps,
    "bits": lambda row: row.bits_up + row.bits_down,
    "energy": lambda row: math.nan if row.energy is None else row.energy,
}


def has_energy(result: ReportedResult) -> bool:
    """Whether the energy that clients need is counted in all rows, so that it can be an axis."""
    rows = result.rows_to_horizon
    return len(rows) > 0 and all(row.energy is not None for row in rows)


@dataclass(frozen=True)
class Measure:
    """What a plot can show against an axis: its title, a short name, and how values are said."""

    title: str
    short: str
    kind: Literal["percent", "fixed", "significant", "logarithmic", "count"]
    value: Callable[[Row], float]


def measures(metrics: Collection[MetricRecord], where: str = "Test") -> dict[str, Measure]:
    """All measures by key, the leading metric first."""
    judged = {metric.name: _measure(metric, where) for metric in metrics}
    if leading(tuple(metrics)) == LOSS:
        judged = {LOSS.name: _measure(LOSS, where), **judged}
    else:
        judged[LOSS.name] = Measure(f"{where} loss", "loss", "fixed", lambda row: row.loss)
    return {
        **judged,
        "variance": Measure(
            "Variance of the client models, logarithmic",
            "variance",
            "logarithmic",
            lambda row: row.variance,
        ),
        "potential": Measure(
            "Potential, logarithmic", "potential", "logarithmic", lambda row: row.potential
        ),
        "contributed_steps": Measure(
            "Local steps used by updates", "steps used", "count", lambda row: row.contributed_steps
        ),
    }


def _measure(metric: MetricRecord, where: str) -> Measure:
    name, scale = metric.name, 100 if metric.unit == "%" else 1
    return Measure(
        f"{where} {heading(metric)}",
        name,
        "percent" if metric.unit == "%" else "significant",
        lambda row: scale * row.value(name),
    )


@dataclass(frozen=True)
class Band:
    """Mean over seeds and the band around it; NaN is not drawn."""

    mean: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True)
class Curve:
    """One result along its I evaluations. Values on both axes are means over seeds."""

    seeds: Sequence[int]  # (I,) number of seeds averaged at each point
    along: Mapping[str, Floats]  # by axis, of AXES, energy where it is counted: (I,)
    bands: Mapping[str, Band]  # by measure


def curve(result: ReportedResult) -> Curve:
    """The curve of one result.

    A result that ended is drawn up to the end of its shortest seed, so that all points are means of
    equally many seeds. A partial result is drawn up to the end of its longest seed: cutting it at
    the shortest would hide most of it.
    """
    by_seed = rows_by_seed(result.rows_to_horizon)
    longest = min if result.ended else max
    end = longest((len(rows) for rows in by_seed.values()), default=0)
    columns = [
        [rows[index] for rows in by_seed.values() if index < len(rows)] for index in range(end)
    ]
    return Curve(
        seeds=[len(column) for column in columns],
        along={
            axis: _means(columns, value)
            for axis, value in AXES.items()
            if axis != "energy" or has_energy(result)
        },
        bands={
            key: _band(columns, measure.value, positive=measure.kind == "logarithmic")
            for key, measure in measures(result.metrics).items()
        },
    )


@dataclass(frozen=True)
class SeedLine:
    """One seed of a result along its I evaluations."""

    seed: int
    along: Mapping[str, Floats]  # by axis: (I,)
    values: Mapping[str, Floats]  # by measure: (I,)


def seed_lines(result: ReportedResult) -> list[SeedLine]:
    """Each seed of a result; none if there is one alone, whose line is the mean."""
    by_seed = rows_by_seed(result.rows_to_horizon)
    axes = {axis: value for axis, value in AXES.items() if axis != "energy" or has_energy(result)}
    shown = measures(result.metrics)
    return [
        SeedLine(
            seed,
            {axis: np.array([value(row) for row in rows], float) for axis, value in axes.items()},
            {
                key: _drawable([measure.value(row) for row in rows], measure)
                for key, measure in shown.items()
            },
        )
        for seed, rows in by_seed.items()
        if len(by_seed) > 1
    ]


def _drawable(values: Sequence[float], measure: Measure) -> Floats:
    """The values, without zeros where the axis is logarithmic."""
    drawn = np.array(values, dtype=np.float64)
    return np.where(drawn > 0, drawn, np.nan) if measure.kind == "logarithmic" else drawn


def _means(columns: Sequence[Sequence[Row]], value: Callable[[Row], float]) -> Floats:
    return np.array([np.mean([value(row) for row in column]) for column in columns])


def _band(
    columns: Sequence[Sequence[Row]], value: Callable[[Row], float], *, positive: bool
) -> Band:
    """Mean plus and minus one standard deviation (ddof = 1).

    With `positive`, for a logarithmic axis, zeros are left out, and a band that would reach below
    zero ends at the lowest seed instead.
    """
    mean, low, high = (np.full(len(columns), np.nan) for _ in range(3))
    for index, column in enumerate(columns):
        values = np.array([value(row) for row in column], dtype=np.float64)
        if not np.isfinite(values).all() or (positive and not values.mean() > 0):
            continue
        mean[index] = values.mean()
        if len(values) > 1:
            with np.errstate(over="ignore"):
                deviation = values.std(ddof=1)
            low[index], high[index] = mean[index] - deviation, mean[index] + deviation
            if positive and low[index] <= 0:
                low[index] = values.min() if values.min() > 0 else mean[index]
    return Band(mean, low, high)
