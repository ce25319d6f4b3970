"""The same search for every method, away from what is reported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

import pytest

from favano.errors import BadInput
from favano.records import Entry, entries_from_csv, rates_tried
from favano.specification.digest import server_rate
from favano.specification.spec import required
from favano.studies.catalogue import EXPERIMENTS
from favano.studies.experiment import StudyRun
from favano.studies.paper.search import PAPER_SEARCH
from favano.studies.search import FIRST_SEED, RateSearch, Rung, Search, SearchGrid
from favano.studies.tuning import finalist_runs, tuned_runs, tuning_runs
from tests.run.small import small_runs

TABLE = EXPERIMENTS["table-2"].runs(3)


def test_every_method_tries_equally_many_rates() -> None:
    tried = tuning_runs(TABLE, PAPER_SEARCH)
    counts = Counter((run.spec.name, run.column) for run in tried)
    assert set(counts) == {(run.spec.name, run.column) for run in TABLE}
    assert set(counts.values()) == {35 * PAPER_SEARCH.search.seeds}
    assert len({run.digest for run in tried}) == len(tried)


def test_the_rates_of_the_paper_are_among_those_tried() -> None:
    tried = {
        (run.spec.name, run.spec.training.learning_rate, server_rate(run.spec))
        for run in tuning_runs(TABLE, PAPER_SEARCH)
    }
    for run in TABLE:
        spec = run.spec
        assert (spec.name, spec.training.learning_rate, server_rate(spec)) in tried


def test_neither_seeds_nor_test_images_of_the_report_have_a_part() -> None:
    tried = tuning_runs(TABLE, PAPER_SEARCH)
    assert {run.spec.run.seed for run in tried}.isdisjoint({run.spec.run.seed for run in TABLE})
    assert {run.spec.problem.holdout for run in tried} == {10000}
    assert {run.spec.run.seed for run in tried} == {FIRST_SEED, FIRST_SEED + 1}


def test_the_best_mean_wins_and_divergence_counts_as_nothing() -> None:
    runs = [run for run in small_runs(2) if run.spec.name == "favano"]

    def entry(column: str, rate: float, seed: int, accuracy: float, ok: bool = True) -> Entry:
        made = Entry("", "favano", column, seed, "complete", rate, 1.0, accuracy)
        return made if ok else made._replace(status="diverged")

    tried = [
        entry("iid", 0.5, 1000, 0.8), entry("iid", 0.5, 1001, 0.8),
        entry("iid", 1.0, 1000, 0.9), entry("iid", 1.0, 1001, 0.75),
        entry("iid", 2.0, 1000, 0.95), entry("iid", 2.0, 1001, 0.95, ok=False),
        entry("two", 0.5, 1000, 0.6), entry("two", 1.0, 1000, 0.5),
    ]  # fmt: skip
    tuned = tuned_runs(runs, tried)
    rates = {(run.column, run.spec.training.learning_rate) for run in tuned}
    assert rates == {("iid", 1.0), ("two", 0.5)}
    assert [run.spec.run.seed for run in tuned] == [run.spec.run.seed for run in runs]
    assert {run.spec.problem.holdout for run in tuned} == {0}
    unchanged = [run.digest for run in runs if run.column == "two"]
    assert [run.digest for run in tuned if run.column == "two"] == unchanged


def test_a_shorter_search_has_a_share_of_the_time() -> None:
    runs = small_runs(1)
    grids = dict.fromkeys(("favano", "fedavg"), SearchGrid((1.0, 2.0), (1.0,)))
    quarter = Search((Rung(0.25, 2),), holdout=100)
    tried = tuning_runs(runs, RateSearch(grids, quarter))
    assert {run.spec.run.horizon for run in runs} == {140.0}
    assert {run.spec.run.horizon for run in tried} == {35.0}
    with pytest.raises(BadInput, match="need equally many pairs for every method"):
        RateSearch({**grids, "quafl": SearchGrid((1.0,), (1.0,))}, quarter)


def test_the_best_few_are_tried_to_the_end_and_decide() -> None:
    """The second best goes on and wins; the third, which would have won, does not."""
    runs = [run for run in small_runs(1) if (run.spec.name, run.column) == ("favano", "iid")]
    grid = SearchGrid((0.5, 1.0, 2.0), (1.0,))
    rungs = (Rung(0.25, 3), Rung(1.0, 2))
    search = RateSearch({"favano": grid}, Search(rungs, holdout=100))

    def entries(runs: Sequence[StudyRun], accuracy: Mapping[float, float]) -> list[Entry]:
        rates = [required(run.spec.training.learning_rate) for run in runs]
        return [
            Entry(run.reading, "favano", "iid", 1000, "complete", rate, 1.0, accuracy[rate])
            for run, rate in zip(runs, rates, strict=True)
        ]

    first, second, third = (
        factor * required(runs[0].spec.training.learning_rate) for factor in grid[0]
    )
    tried = entries(tuning_runs(runs, search), {first: 0.3, second: 0.2, third: 0.1})
    last = finalist_runs(runs, search, tried)
    assert [run.spec.training.learning_rate for run in last] == [first, second]
    assert {run.spec.run.horizon for run in last} == {140.0}
    assert {run.spec.problem.holdout for run in last} == {100}
    tried += entries(last, {first: 0.05, second: 0.06})
    assert [pair[0] for pair in rates_tried(tried)["favano", "iid"]] == [second, first, third]
    assert {run.spec.training.learning_rate for run in tuned_runs(runs, tried)} == {second}


RESULTS = Path(__file__).parents[2] / "results" / "table-2"


def test_no_rate_that_was_chosen_lies_on_an_edge() -> None:
    """Of the committed search: wider grids would not have chosen otherwise."""
    rates = rates_tried(entries_from_csv((RESULTS / "tuning.csv").read_text()))
    assert len(rates) == 12
    for pairs in rates.values():
        assert len(pairs) == 35
        for place in (0, 1):
            tried = {pair[place] or 0.0 for pair in pairs}
            assert len(tried) == 1 or min(tried) < (pairs[0][place] or 0.0) < max(tried)


def test_what_the_readme_says_of_tuned_rates_holds() -> None:
    """Ahead of FedAvg and QuAFL on non-IID data in every seed; level with FedAvg for IID data."""
    accuracy = {
        (entry.column, entry.algorithm, entry.seed): entry.accuracy or 0.0
        for entry in entries_from_csv((RESULTS / "tuned.csv").read_text())
    }

    def leads(column: str, other: str) -> list[float]:
        return [accuracy[column, "favano", s] - accuracy[column, other, s] for s in range(10)]

    for column in ("non-iid-2/3-fast", "non-iid-1/9-fast"):
        assert min(leads(column, "fedavg") + leads(column, "quafl")) > 0
    assert abs(fmean(leads("iid", "fedavg"))) < 0.001
    assert fmean(leads("iid", "fedbuff")) < -0.02
    assert fmean(leads("non-iid-2/3-fast", "fedbuff")) < -0.02
    assert abs(fmean(leads("non-iid-1/9-fast", "fedbuff"))) < 0.005
