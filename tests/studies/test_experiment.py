"""Runs as specifications: names that last, scales, other readings."""

from __future__ import annotations

import pytest

from favano.errors import BadInput
from favano.studies.experiment import PAPER, StudyRun, make, prepared, read_otherwise
from favano.studies.paper.table_2 import table_2
from tests.run.small import SMALL, small_runs
from tests.specs import complete


def test_a_digest_is_that_of_the_specification_alone() -> None:
    spec = complete(dataset="mnist", algorithm="fedbuff", seed=3)
    assert StudyRun("a", "b", spec).digest == StudyRun("c", "d", spec).digest
    digests = {
        StudyRun("a", "b", make(spec, update)).digest
        for update in ({}, {"seed": 4}, {"device": "cuda"}, {"horizon": 4999.0}, {"buffer": 9})
    }
    assert len(digests) == 5


def test_digests_last() -> None:
    """They name files: a change here orphans every result that was kept."""
    runs = {(run.spec.name, run.column): run.digest for run in table_2(1)}
    assert runs["favano", "iid"] == "f84d4fed0bf7f50f"
    assert runs["fedbuff", "non-iid-1/9-fast"] == "f9639a8d90ec5389"


def test_digests_leave_out_what_has_its_default() -> None:
    spec = complete(dataset="mnist")
    same = complete(dataset="mnist", fast_mean=2.0, variance="start")
    assert StudyRun(PAPER, "", spec).digest == StudyRun(PAPER, "", same).digest


def test_a_scale_shortens_the_run_and_thins_the_data() -> None:
    (run,) = prepared(small_runs(1)[:1], scale=0.25, device="cpu")
    assert run.spec.run.horizon == 35
    assert run.spec.problem.data_fraction == 0.25
    assert run.spec.run.evaluate_every == 35 / 20
    assert prepared([run], scale=1, device="cpu") == [run]


def test_other_readings_are_of_the_methods_they_are_about() -> None:
    runs = small_runs(2)
    none = read_otherwise(runs, SMALL.readings, ["none"])
    assert {(run.spec.name, run.spec.keys["reweight"]) for run in none} == {("favano", "none")}
    assert [run.column for run in none] == ["iid", "iid", "two", "two"]
    free = read_otherwise(runs, SMALL.readings, ["free"])
    assert {run.column for run in free} == {"two"}
    assert {run.spec.name for run in free} == {"fedavg", "favano"}
    assert {run.reading for run in free} == {"free"}


def test_an_unknown_reading_is_refused_with_the_known_ones() -> None:
    with pytest.raises(BadInput, match="readings=odd: unknown; need all or some of none, free"):
        read_otherwise(small_runs(1), SMALL.readings, ["odd"])
