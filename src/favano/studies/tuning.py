"""Trials of points: the runs that `favano tune` and `favano reproduce --tune` make and rank.

Every method tries equally many points on held-out seeds, evaluated on samples held out of the
training data. Where this is done for a part of the time alone, the best few are tried for longer.
The point with the best mean on the last rung is chosen. No reported seed and no test sample is used
for the choice. Grids are meant to be wide enough that the best point lies inside; tables mark
points at the edge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from favano.options import options_of
from favano.records import Entry, rates_tried
from favano.records.ledger import TO_THE_END
from favano.specification.spec import Spec, required
from favano.studies.experiment import StudyRun, make
from favano.studies.search import FIRST_SEED, Point, RateSearch, Search


def trial_runs(run: StudyRun, point: Point, search: Search, rung: int, name: str) -> list[StudyRun]:
    """The runs that try a point on a rung: on held-out samples, one for each seed."""
    time = search.rungs[rung].time
    keys = {"horizon": time * required(run.spec.run.horizon)} if time < 1 else {}
    spec = make(run.spec, {**keys, "holdout": search.holdout, **point})
    return [
        StudyRun(name, run.column, make(spec, {"seed": FIRST_SEED + seed, "seeds": 1}))
        for seed in range(search.seeds)
    ]


def tuning_runs(runs: Sequence[StudyRun], rates: RateSearch) -> list[StudyRun]:
    """The runs that tune every method and column of `runs`, on the first rung."""
    trials = []
    for run in {_cell(run): run for run in runs}.values():
        grid, rate = rates.grids[run.spec.method.name], required(run.spec.training.learning_rate)
        for factor, server in product(grid.client, grid.server):
            trials += _pair_runs(run, rates, 0, factor * rate, server)
    return trials


def finalist_runs(
    runs: Sequence[StudyRun], rates: RateSearch, tried: Sequence[Entry]
) -> list[StudyRun]:
    """The runs that try the best pairs of every method and column on the second rung."""
    pairs, second = rates_tried(tried), rates.search.rungs[1].points
    return [
        replace(trial, reading=trial.reading + TO_THE_END)
        for cell, run in {_cell(run): run for run in runs}.items()
        for client, server, _ in pairs[cell][:second]
        for trial in _pair_runs(run, rates, 1, client, server)
    ]


def _pair_runs(
    run: StudyRun, rates: RateSearch, rung: int, client: float | None, server: float | None
) -> list[StudyRun]:
    name = f"client {client:.4g}, server {server:.4g}"
    return trial_runs(run, _pair(run.spec, client, server), rates.search, rung, name)


def tuned_runs(runs: Sequence[StudyRun], tried: Sequence[Entry]) -> list[StudyRun]:
    """The runs with the best rates for their method and column."""
    rates = rates_tried(tried)
    return [
        replace(run, spec=make(run.spec, _pair(run.spec, *rates[_cell(run)][0][:2])))
        for run in runs
    ]


def _cell(run: StudyRun) -> tuple[str, str]:
    return run.spec.name, run.column


def _pair(spec: Spec, client: float | None, server: float | None) -> Point:
    """The rates that a method has."""
    keys = {"learning_rate": client, "server_learning_rate": server}
    if "server_learning_rate" not in options_of(type(spec.method)):
        del keys["server_learning_rate"]
    return keys
