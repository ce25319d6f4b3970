"""`favano.tune`: by the public interface, on held-out samples and seeds of its own."""

from __future__ import annotations

import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

import favano
from favano.errors import BadInput
from favano.records import MetricRecord
from favano.results.tuning import Trial, Tuning
from favano.run.inputs import RunInputs
from favano.run.own_data import OwnData
from favano.specification.keys import Keys
from favano.studies.search import Rung, Search
from favano.studies.tune import describe

EXAMPLE = Path(__file__).parents[2] / "examples" / "tuned.py"
FLEET = favano.Fleet(clients=6)
KEYS: Keys = {"selected": 3, "local_steps": 4, "horizon": 70.0, "evaluate_every": 35.0, "seeds": 2}
GRID: dict[str, list[float]] = {"learning_rate": [0.01, 0.1], "fedbuff.buffer": [2, 3]}
BOTH = ["favano", "fedbuff"]


def problem(test: float = 0.0, hidden: int = 4, **more: Any) -> favano.Problem:
    features = torch.randn(300, 4, generator=torch.Generator().manual_seed(0))
    labels = (features.sum(dim=1) > 0).long()
    mine, theirs = (features[:240], labels[:240]), (features[240:] + test, labels[240:])

    def net() -> nn.Module:
        return nn.Sequential(nn.Linear(4, hidden), nn.ReLU(), nn.Linear(hidden, 2))

    return favano.Problem(net, mine, theirs, split="iid", batch_size=16, holdout=60, **more)


class Steps:
    """Counts local steps, and pools."""

    def __init__(self) -> None:
        self.steps = self.pools = 0

    def begin(self, steps: int) -> None:
        self.pools += 1

    def advance(self, label: str, steps: int, time: float) -> None:
        self.steps += steps

    def end(self) -> None:
        pass


@pytest.fixture(scope="module")
def tuned() -> Tuning:
    return favano.tune(BOTH, problem(), FLEET, grid=GRID, progress=False, **KEYS)


def test_all_methods_and_seeds_are_tried_alike(tuned: Tuning) -> None:
    assert {trial.method: len(tuned.ranked[trial.method]) for trial in tuned.trials} == {
        "favano": 4,
        "fedbuff": 4,
    }
    assert {tuple(trial.values) for trial in tuned.trials} == {(1000, 1001)}
    assert {trial.time for trial in tuned.trials} == {70.0}


@pytest.mark.parametrize("method", BOTH)
def test_the_winner_run_again_is_its_row(tuned: Tuning, method: str) -> None:
    best: Any = tuned.best[method]
    again = favano.simulate(method, problem(), FLEET, **{**KEYS, **best, "seed": 1000})
    assert again.final() == list(tuned.ranked[method][0].values.values())
    assert max(tuned.values.values()) >= tuned.values[method] == sum(again.final()) / 2
    means = [sum(trial.values.values()) for trial in tuned.ranked[method]]
    assert means == sorted(means, reverse=True)


def test_test_data_have_no_part(tuned: Tuning) -> None:
    """With other test data the table is the same, to the last digit; a run is not."""
    other = favano.tune(BOTH, problem(test=9.0), FLEET, grid=GRID, progress=False, **KEYS)
    assert other.to_csv() == tuned.to_csv()


def test_all_runs_are_in_one_pool_and_are_kept(tuned: Tuning, tmp_path: Path) -> None:
    first, second = Steps(), Steps()
    for steps in (first, second):
        made = favano.tune(
            BOTH, problem(), FLEET, grid=GRID, out=tmp_path / "out", progress=steps, **KEYS
        )
        assert made.to_csv() == tuned.to_csv() == (tmp_path / "out" / "trials.csv").read_text()
    assert (first.pools, second.pools, second.steps) == (1, 0, 0)
    wider = {**GRID, "learning_rate": [0.01, 0.1, 0.3]}
    third = Steps()
    favano.tune(["fedbuff"], problem(), FLEET, grid=wider, out=tmp_path / "out", progress=third,
                **KEYS)  # fmt: skip
    assert 0 < third.steps < first.steps


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"hidden": 5}, "holds trials of another network, initial model; choose a new folder"),
        ({"loss": nn.functional.multi_margin_loss}, "holds trials of another loss; "),
        ({"split": "shards:2"}, ""),
    ],
)
def test_trials_of_something_else_are_not_taken(
    given: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    def tune(made: favano.Problem, steps: Steps) -> None:
        favano.tune(["favano"], made, FLEET, grid={"learning_rate": [0.1, 0.2]}, out=tmp_path,
                    progress=steps, horizon=35, selected=3)  # fmt: skip

    tune(problem(), Steps())
    split, steps = given.pop("split", "iid"), Steps()
    made = problem(**given)
    other = replace(made, split=split)
    if sentence:
        with pytest.raises(BadInput, match=sentence):
            tune(other, steps)
    else:
        tune(other, steps)
    assert (steps.steps > 0) == (not sentence)


def test_other_data_are_refused(tmp_path: Path) -> None:
    given: Any = {"grid": {"learning_rate": [0.1, 0.2]}, "out": tmp_path, "progress": False}
    favano.tune(["favano"], problem(), FLEET, horizon=35, selected=3, **given)
    (inputs, labels), other = cast(tuple[Tensor, Tensor], problem().train), problem()
    shifted = replace(other, train=(inputs + 1, labels))
    with pytest.raises(BadInput, match="holds trials of other data; choose a new folder"):
        favano.tune(["favano"], shifted, FLEET, horizon=35, selected=3, **given)


def test_the_best_go_on_for_longer() -> None:
    steps = Steps()
    rates = [0.001, 0.01, 0.03, 0.1, 0.3, 1.0]
    tuning = favano.tune(["favano"], problem(), FLEET, grid={"learning_rate": rates},
                         search="halving", progress=steps, **KEYS)  # fmt: skip
    assert steps.pools == 2
    first, last = tuning.trials[:6], tuning.trials[6:]
    assert {round(trial.time, 9) for trial in first} == {round(70 / 3, 9)}
    assert {trial.time for trial in last} == {70.0}
    by_mean = sorted(first, key=lambda trial: -sum(trial.values.values()))
    assert [trial.point for trial in last] == [trial.point for trial in by_mean[:2]]
    assert [trial.time for trial in tuning.ranked["favano"][:2]] == [70.0, 70.0]


def test_random_points_are_between_those_of_the_grid() -> None:
    given: Any = {"grid": {"learning_rate": [0.01, 1.0]}, "search": "random", "trials": 3}
    tuning = favano.tune(
        ["favano"], problem(), FLEET, progress=False, horizon=35, selected=3, **given
    )
    rates = [float(str(trial.point["learning_rate"])) for trial in tuning.trials]
    assert len(set(rates)) == 3
    assert all(0.01 < rate < 1 for rate in rates)


def test_the_lowest_error_wins_and_divergence_loses(caplog: pytest.LogCaptureFixture) -> None:
    """The metric is the problem's, with its own direction."""

    def error(outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs.argmax(dim=1) != targets).float().mean()

    made = problem(metrics={"error": favano.Metric(error, best="low")})
    tuning = favano.tune(["favano"], made, FLEET, grid={"learning_rate": [1e-9, 0.3, 1e25]},
                         progress=False, **KEYS)  # fmt: skip
    assert [trial.point["learning_rate"] for trial in tuning.ranked["favano"]] == [0.3, 1e-9, 1e25]
    assert tuning.metric.name == "error"
    assert "| favano | 1e+25 | diverged |" in str(tuning)
    assert tuning.to_csv().splitlines()[-1] == "favano,1e+25,70.0,,"
    assert "defaults used" not in caplog.text  # of keys that are tuned, the default is not used


def trial(method: str, value: float, **point: object) -> Trial:
    return Trial(method, point, 0, 100.0, {1000: value})


def test_the_edge_of_a_grid_is_said() -> None:
    rates = (0.1, 0.2, 0.4)
    inside = [trial("a", value, rate=rate) for rate, value in zip(rates, (1, 3, 2), strict=True)]
    above = [trial("b", value, rate=rate) for rate, value in zip(rates, (1, 2, 3), strict=True)]
    below = [trial("c", value, rate=rate) for rate, value in zip(rates, (3, 2, 1), strict=True)]
    wrecked = [trial("d", float("-inf"), rate=rate) for rate in rates]
    tuning = Tuning([*inside, *above, *below, *wrecked], MetricRecord("score"), 10)
    assert tuning.warnings() == [
        "b: the best rate=0.4 is the largest that was tried; try larger ones, too",
        "c: the best rate=0.1 is the smallest that was tried; try smaller ones, too",
        "d: no trial has a finite score; try smaller learning rates",
    ]


def test_what_is_not_a_search_is_refused() -> None:
    given: Any = {"grid": {"learning_rate": [0.1, 0.2]}, "horizon": 35}
    for more, sentence in (
        ({"seed": 3}, "seed=3: trials have seeds of their own, from 1000 on; remove it"),
        ({"search": "best"}, "search=best: need grid, random or halving"),
        ({"search": "random"}, "trials=None: need their number"),
        ({"trials": 4}, "trials=4: requires search=random or halving"),
        ({"grid": {"learning_rate": [0.1]}}, "grid=learning_rate=0.1: need two points or more"),
        ({"grid": {"learning_rate": [0.1, -1]}}, "learning_rate=-1: need "),
        ({"learning_rate": [0.1, 0.2], "grid": {"momentum": [0.1, 0.2]}}, "learning_rate="),
    ):
        with pytest.raises(BadInput) as refused:
            favano.tune(["favano"], problem(), FLEET, **{**given, **more})
        assert str(refused.value).startswith(sentence)


def test_a_search_in_a_sentence() -> None:
    rungs = (Rung(1 / 9, 35), Rung(1 / 3, 12), Rung(1.0, 4))
    assert describe(Search(rungs, 1000, 2), 2) == (
        "35 points for each of 2 methods for 1/9 of the time, then the best 12 for 1/3, then the "
        "best 4 to the end, on seeds 1000 to 1001 and 1,000 held-out training samples; test data "
        "have no part"
    )
    assert describe(Search((Rung(1.0, 4),), 50, 1), 1) == (
        "4 points, on seed 1000 and 50 held-out training samples; test data have no part"
    )


def test_a_fifth_of_the_training_samples_is_held_out(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    of = RunInputs.of

    def watched(given: favano.Problem, data: OwnData | None) -> RunInputs:
        seen.append(given.holdout)
        return of(given, data)

    monkeypatch.setattr(RunInputs, "of", watched)
    made = replace(problem(), holdout=0)
    given: Any = {"grid": {"learning_rate": [0.1, 0.2]}, "progress": False, "horizon": 35}
    assert favano.tune(["favano"], made, FLEET, selected=3, **given).holdout == 48
    assert favano.tune(["favano"], made, FLEET, selected=3, holdout=30, **given).holdout == 30
    assert seen == [48, 30]


@pytest.mark.slow
def test_the_example_tunes_two_methods_and_keeps_the_best_model(
    capsys: pytest.CaptureFixture[str],
) -> None:
    result = runpy.run_path(str(EXAMPLE))["main"](horizon=150)
    rows = [row for row in result.rows_to_horizon if row.seed == 0]
    assert result.kept[0].accuracy == max(row.accuracy for row in rows)
    assert "12 others" not in (out := capsys.readouterr().out)
    assert out.count("| fedbuff |") == out.count("| favano |") == 6
