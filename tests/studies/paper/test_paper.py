"""The paper's tables and figures as runs."""

from __future__ import annotations

import pytest

from favano.errors import BadInput
from favano.quantisation import Recipe
from favano.studies.catalogue import EXPERIMENTS, named
from favano.studies.experiment import Experiment, read_otherwise


def test_table_2_is_twelve_cells_of_the_papers_constants() -> None:
    runs = EXPERIMENTS["table-2"].runs(10)
    assert len({run.digest for run in runs}) == len(runs) == 120
    for run in runs:
        spec = run.spec
        assert (
            spec.fleet.clients,
            spec.clock.selected,
            spec.training.local_steps,
        ) == (100, 20, 20)
        assert spec.keys.get("buffer") == (10 if spec.name == "fedbuff" else None)
        assert (spec.training.learning_rate, spec.problem.batch_size, spec.run.horizon) == (
            0.5,
            128,
            5000,
        )
    fast = {run.column: run.spec.fleet.fast_fraction for run in runs}
    assert fast == {
        "iid": pytest.approx(2 / 3),
        "non-iid-2/3-fast": pytest.approx(2 / 3),
        "non-iid-1/9-fast": pytest.approx(1 / 9),
    }
    cells = {(run.spec.name, run.column) for run in runs}
    assert cells == set(EXPERIMENTS["table-2"].paper)


@pytest.mark.parametrize("figure", ["figure-mnist", "figure-mnist-slow"])
def test_mnist_figures_share_their_runs_with_the_table(figure: str) -> None:
    table = {run.digest for run in EXPERIMENTS["table-2"].runs(10)}
    runs = EXPERIMENTS[figure].runs(10)
    assert len(runs) == 40
    assert {run.digest for run in runs} <= table


def test_networks_and_data_of_the_other_figures() -> None:
    cifar = EXPERIMENTS["figure-cifar10"].runs(1)
    assert {
        (r.spec.problem.model, r.spec.problem.split, r.spec.training.learning_rate) for r in cifar
    } == {("resnet20", "two-class", 0.005)}
    tiny = EXPERIMENTS["figure-tinyimagenet"].runs(1)
    assert {
        (r.spec.problem.model, r.spec.problem.split, r.spec.training.learning_rate) for r in tiny
    } == {("resnet18", "iid", 0.1)}
    assert {run.spec.run.horizon for run in (*cifar, *tiny)} == {10000}


def test_quantisation_pairs_every_s_in_full_precision_and_in_few_bits() -> None:
    figure = EXPERIMENTS["figure-quantisation"]
    runs = {run.reading: run.spec for run in figure.runs(1)}
    assert list(runs) == list(figure.lines)
    few = {name for name, spec in runs.items() if spec.training.quantise == "luq"}
    assert few == {f"s = {s}, QNN" for s in (5, 10, 20, 50)}
    for name, spec in runs.items():
        assert spec.training.recipe == (Recipe() if name in few else None)
        assert (spec.problem.model, spec.problem.split, spec.fleet.clients) == (
            "resnet20",
            "two-class",
            100,
        )
        assert f"s = {spec.clock.selected}, " in name
    shared = {run.digest for run in EXPERIMENTS["figure-cifar10"].runs(1)}
    assert {run.digest for run in figure.runs(1) if run.reading == "s = 20, 32 bits"} <= shared


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=lambda experiment: experiment.name)
def test_every_run_has_its_line_and_column(experiment: Experiment) -> None:
    runs = experiment.runs(2)
    assert {run.column for run in runs} == set(experiment.columns)
    assert all({run.spec.name, run.reading} & set(experiment.lines) for run in runs)
    assert {run.spec.run.seed for run in runs} == {0, 1}


def test_every_reading_differs_from_the_papers() -> None:
    table = EXPERIMENTS["table-2"]
    runs = table.runs(1)
    others = read_otherwise(runs, table.readings, list(table.readings))
    assert {run.reading for run in others} == set(table.readings)
    digests = [run.digest for run in (*runs, *others)]
    assert len(set(digests)) == len(digests)


def test_names() -> None:
    assert [experiment.name for experiment in named("table-2")] == ["table-2"]
    assert {experiment.name for experiment in named("all")} == set(EXPERIMENTS) - {
        "femnist",
        "shakespeare",
    }
    assert named("table-1") == []
    with pytest.raises(BadInput, match=r"name=table-3: need one of .*table-2, figure-mnist"):
        named("table-3")
