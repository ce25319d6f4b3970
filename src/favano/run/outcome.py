"""Sentences about runs that ended badly."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from favano.records import RunRecord


def read_wrongly(runs: Sequence[RunRecord]) -> str | None:
    """A sentence about messages beyond the radius of the lattice, if there were any."""
    wrapped = sum(run.decoding_failures for run in runs)
    if not wrapped:
        return None
    return (
        f"{runs[0].algorithm}: {wrapped} messages lay beyond the radius of the lattice and were "
        "decoded wrongly; a larger codec_scale or more codec_bits prevents this"
    )


def diverged_runs(runs: Sequence[RunRecord]) -> str | None:
    """A sentence about the seeds of one method that diverged, if there were any."""
    those = [run for run in runs if run.status == "diverged"]
    if not those:
        return None
    seeds = ", ".join(str(run.seed) for run in those)
    what = "variance" if all(isfinite(run.loss) for run in those) else "loss"
    return (
        f"{runs[0].algorithm}, seed{'s' if len(those) > 1 else ''} {seeds}: diverged: "
        f"the {what} is not finite; lower the learning rate"
    )
