"""Mean curves over the seeds behind a figure, as one small CSV file."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Mapping, Sequence
from io import StringIO
from statistics import fmean, stdev

from favano.experiments.archive import Archive
from favano.experiments.experiment import Run
from favano.metrics import Row, up_to
from favano.run.spec import given

_AXES: Mapping[str, Callable[[Row], float]] = {
    "time": lambda row: row.time,
    "server_steps": lambda row: row.server_step,
    "local_steps": lambda row: row.local_steps,
}
_MEASURES: Mapping[str, Callable[[Row], float]] = {
    "accuracy": lambda row: row.accuracy,
    "loss": lambda row: row.loss,
    "variance": lambda row: row.variance,
}


def curves_to_csv(runs: Sequence[Run], archive: Archive) -> str:
    """Mean and mean plus and minus one standard deviation of the runs that were made.

    Seeds are averaged at equal evaluations up to the horizon, as in the tables. Runs that
    diverged are left out.
    """
    lines: dict[tuple[str, str, str], list[list[Row]]] = {}
    for run in runs:
        if archive.entry(run).status == "complete":
            line = lines.setdefault((run.reading, run.spec.name, run.column), [])
            end = given(run.spec.run.horizon)
            line.append(up_to(archive.read(run).history, end))
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    ends = ("", "_low", "_high")
    measures = [f"{measure}{end}" for measure in _MEASURES for end in ends]
    writer.writerow(["reading", "algorithm", "column", "seeds", *_AXES, *measures])
    for key, histories in lines.items():
        for rows in zip(*histories, strict=True):
            along = [fmean(value(row) for row in rows) for value in _AXES.values()]
            bands = [_band([value(row) for row in rows]) for value in _MEASURES.values()]
            cells = [*along, *(cell for band in bands for cell in band)]
            writer.writerow([*key, len(rows), *(_short(cell) for cell in cells)])
    return text.getvalue()


def _band(values: list[float]) -> tuple[float, float, float]:
    """Mean, and mean minus and plus one standard deviation (ddof = 1), never below the lowest."""
    if not all(math.isfinite(value) for value in values):
        return math.nan, math.nan, math.nan
    mean = fmean(values)
    spread = stdev(values) if len(values) > 1 else 0.0
    low = mean - spread if mean > spread else min(values)
    return mean, low, mean + spread


def _short(value: float) -> str:
    return f"{value:.6g}"
