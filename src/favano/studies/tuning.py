"""Tunes the learning rates of every method by the same search.

Each method tries equally many pairs of client and server rate on held-out seeds, evaluated on
samples held out of the training data. Where this is done for a part of the time alone, the best few
pairs may be tried to the end. The pair with the best mean accuracy is then run on the reported
seeds. No reported seed and no test sample is used for the choice. Grids are meant to be wide enough
that the best pair lies inside; the table of chosen rates marks pairs at the edge.
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
from favano.studies.search import FIRST_SEED, Search


def tuning_runs(runs: Sequence[StudyRun], search: Search) -> list[StudyRun]:
    """The runs that tune every method and column of `runs`."""
    trials = []
    for run in {_cell(run): run for run in runs}.values():
        grid, rate = search.grids[run.spec.method.name], required(run.spec.training.learning_rate)
        keys = {"horizon": search.time * required(run.spec.run.horizon)} if search.time < 1 else {}
        for factor, server in product(grid.client, grid.server):
            trials += _trial(replace(run, spec=make(run.spec, keys)), search, factor * rate, server)
    return trials


def finalist_runs(
    runs: Sequence[StudyRun], search: Search, tried: Sequence[Entry]
) -> list[StudyRun]:
    """The runs that try the best pairs of every method and column to the end."""
    pairs = rates_tried(tried)
    return [
        replace(trial, reading=trial.reading + TO_THE_END)
        for cell, run in {_cell(run): run for run in runs}.items()
        for client, server, _ in pairs[cell][: search.finalists]
        for trial in _trial(run, search, client, server)
    ]


def _trial(
    run: StudyRun, search: Search, client: float | None, server: float | None
) -> list[StudyRun]:
    """Runs that try a pair of rates on held-out samples and seeds."""
    spec = _with(make(run.spec, {"holdout": search.holdout}), client, server)
    return [
        StudyRun(
            f"client {client:.4g}, server {server:.4g}",
            run.column,
            make(spec, {"seed": FIRST_SEED + seed}),
        )
        for seed in range(search.seeds)
    ]


def tuned_runs(runs: Sequence[StudyRun], tried: Sequence[Entry]) -> list[StudyRun]:
    """The runs with the best rates for their method and column."""
    rates = rates_tried(tried)
    return [replace(run, spec=_with(run.spec, *rates[_cell(run)][0][:2])) for run in runs]


def _cell(run: StudyRun) -> tuple[str, str]:
    return run.spec.name, run.column


def _with(spec: Spec, client: float | None, server: float | None) -> Spec:
    keys = {"learning_rate": client, "server_learning_rate": server}
    if "server_learning_rate" not in options_of(type(spec.method)):
        del keys["server_learning_rate"]
    return make(spec, keys)
