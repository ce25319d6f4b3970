"""The same search for every method, away from what is reported."""

from __future__ import annotations

from collections import Counter

from favano.experiments.paper import EXPERIMENTS
from favano.experiments.tuning import GRIDS, SEEDS, TUNED, tuned_runs, tuning_runs
from favano.metrics import Entry
from tests.experiments.small import small_runs

TABLE = EXPERIMENTS["table-2"].runs(3)


def test_every_method_tries_equally_many_rates() -> None:
    tried = tuning_runs(TABLE)
    counts = Counter((run.spec.algorithm, run.column) for run in tried)
    assert set(counts) == {(run.spec.algorithm, run.column) for run in TABLE}
    assert set(counts.values()) == {35 * len(SEEDS)}
    assert {len(grid.client) * len(grid.server) for grid in GRIDS.values()} == {35}
    assert len({run.digest for run in tried}) == len(tried)


def test_the_rates_of_the_paper_are_among_those_tried() -> None:
    tried = {
        (run.spec.algorithm, run.spec.learning_rate, run.spec.server_learning_rate)
        for run in tuning_runs(TABLE)
    }
    for run in TABLE:
        spec = run.spec
        assert (spec.algorithm, spec.learning_rate, spec.server_learning_rate) in tried


def test_neither_seeds_nor_test_images_of_the_report_have_a_part() -> None:
    tried = tuning_runs(TABLE)
    assert {run.spec.seed for run in tried}.isdisjoint({run.spec.seed for run in TABLE})
    assert {run.spec.holdout for run in tried} == {10000}
    assert {run.spec.holdout for run in tuning_runs(small_runs(1))} == {287}


def test_the_best_mean_wins_and_divergence_counts_as_nothing() -> None:
    runs = [run for run in small_runs(2) if run.spec.algorithm == "favano"]

    def entry(column: str, rate: float, seed: int, accuracy: float, ok: bool = True) -> Entry:
        found = Entry("", "favano", column, seed, "complete", rate, 1.0, accuracy)
        return found if ok else found._replace(status="diverged")

    tried = [
        entry("iid", 0.5, 1000, 0.8), entry("iid", 0.5, 1001, 0.8),
        entry("iid", 1.0, 1000, 0.9), entry("iid", 1.0, 1001, 0.75),
        entry("iid", 2.0, 1000, 0.95), entry("iid", 2.0, 1001, 0.95, ok=False),
        entry("two", 0.5, 1000, 0.6), entry("two", 1.0, 1000, 0.5),
    ]  # fmt: skip
    tuned = tuned_runs(runs, tried)
    rates = {(run.column, run.spec.learning_rate) for run in tuned}
    assert rates == {("iid", 1.0), ("two", 0.5)}
    assert {run.reading for run in tuned} == {TUNED}
    assert [run.spec.seed for run in tuned] == [run.spec.seed for run in runs]
    assert {run.spec.holdout for run in tuned} == {0}
    unchanged = [run.digest for run in runs if run.column == "two"]
    assert [run.digest for run in tuned if run.column == "two"] == unchanged
