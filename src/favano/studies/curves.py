"""Mean curves over the seeds of a figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev

from favano.errors import require
from favano.records import CurvePoint, Row
from favano.records.folder import RUNS_FOLDER
from favano.studies.archive import Archive
from favano.studies.experiment import StudyRun


def mean_curves(runs: Sequence[StudyRun], archive: Archive) -> list[CurvePoint]:
    """Mean, and mean plus and minus one standard deviation, of the runs that were made.

    Seeds are averaged at equal evaluations up to the horizon, as in the tables. Diverged runs are
    left out.
    """
    lines: dict[tuple[str, str, str], list[list[Row]]] = {}
    for run in runs:
        if archive.entry(run).status == "complete":
            line = lines.setdefault((run.reading, run.spec.name, run.column), [])
            line.append(archive.read(run).rows_to_horizon)
    for key, histories in lines.items():
        alike = len({len(rows) for rows in histories}) == 1
        rule = (
            f"seeds of {', '.join(key)} have different numbers of evaluations; remove their folders"
        )
        require(alike, "out", archive.out / RUNS_FOLDER, rule)
    return [
        CurvePoint(
            *key,
            len(rows),
            fmean(row.time for row in rows),
            fmean(row.server_step for row in rows),
            fmean(row.local_steps for row in rows),
            *_band([row.accuracy for row in rows]),
            *_band([row.loss for row in rows]),
            *_band([row.variance for row in rows]),
        )
        for key, histories in lines.items()
        for rows in zip(*histories, strict=True)
    ]


def _band(values: list[float]) -> tuple[float, float, float]:
    """Mean, and mean minus and plus one standard deviation (ddof = 1), never below the lowest."""
    if not all(math.isfinite(value) for value in values):
        return math.nan, math.nan, math.nan
    mean = fmean(values)
    spread = stdev(values) if len(values) > 1 else 0.0
    low = mean - spread if mean > spread else min(values)
    return mean, low, mean + spread
