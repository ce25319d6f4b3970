"""The best model on held-out samples, early stopping, and models as networks of one's own."""

from __future__ import annotations

from pathlib import Path
from shutil import copyfile
from typing import Any

import pytest
import torch
from torch import nn

import favano
from favano.errors import BadInput
from favano.records import MetricRecord

FLEET = favano.Fleet(clients=6)
KEYS: Any = {
    "selected": 3, "local_steps": 4, "learning_rate": 0.4, "horizon": 210.0,
    "evaluate_every": 21.0, "seeds": 2, "progress": False,
}  # fmt: skip


class Net(nn.Module):
    """A network of the user's own, with an argument and a method."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(4, width), nn.Linear(width, 2)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self.outer(self.inner(inputs).relu())
        return outputs

    def hello(self) -> str:
        return f"width {self.inner.out_features}"


def problem(holdout: int = 60, model: Any = None) -> favano.Problem:
    """Noisy labels, so that scores go up and down."""
    draw = torch.Generator().manual_seed(0)
    features = torch.randn(300, 4, generator=draw)
    labels = (features.sum(dim=1) + 2 * torch.randn(300, generator=draw) > 0).long()
    mine, theirs = (features[:240], labels[:240]), (features[240:], labels[240:])
    with torch.random.fork_rng():
        torch.manual_seed(0)  # whatever was drawn before
        network = model or Net(5)
    return favano.Problem(network, mine, theirs, split="iid", batch_size=16, holdout=holdout)


def held_out(made: favano.Problem) -> tuple[torch.Tensor, torch.Tensor]:
    from favano.run.own_data import read_data

    test = read_data(made).test
    return test.inputs, test.targets


def accuracy(network: nn.Module, made: favano.Problem) -> float:
    inputs, targets = held_out(made)
    with torch.no_grad():
        return float((network(inputs).argmax(dim=1) == targets).double().mean())


@pytest.fixture(scope="module")
def made() -> favano.Problem:
    return problem()


@pytest.fixture(scope="module")
def best(made: favano.Problem) -> favano.Result:
    return favano.simulate("favano", made, FLEET, **{**KEYS, "keep": "best"})


def test_the_model_that_is_kept_has_the_best_score(
    best: favano.Result, made: favano.Problem
) -> None:
    for seed in (0, 1):
        rows = [row for row in best.rows_to_horizon if row.seed == seed]
        top = max(row.accuracy for row in rows)
        first = next(row for row in rows if row.accuracy == top)
        assert best.kept[seed] == first
        assert accuracy(best.model(seed), made) == pytest.approx(top)
    assert any(row != best.rows[-1] for row in best.kept.values())
    assert {row.time for row in best.kept.values()} != {210.0}  # else nothing was seen here


def test_nothing_else_of_the_run_is_changed(best: favano.Result, made: favano.Problem) -> None:
    last = favano.simulate("favano", made, FLEET, **KEYS)
    strip = [row._replace(digest="") for row in last.rows]
    assert [row._replace(digest="") for row in best.rows] == strip
    assert last.kept == {seed: [r for r in last.rows if r.seed == seed][-1] for seed in (0, 1)}
    assert any(
        not torch.equal(last.models[seed]["inner.weight"], best.models[seed]["inner.weight"])
        for seed in (0, 1)
    )


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"holdout": 0}, "keep=best: requires holdout=N: the best model is chosen on held-out"),
        ({"evaluate_on": "clients"}, "keep=best: requires evaluate_on=test or both"),
        ({"keep": "first"}, "keep=first: need last or best"),
    ],
)
def test_a_model_is_not_chosen_on_other_samples(keys: dict[str, Any], sentence: str) -> None:
    given = problem(holdout=keys.pop("holdout", 60))
    with pytest.raises(BadInput) as refused:
        favano.simulate("favano", given, FLEET, **{**KEYS, "keep": "best", **keys})
    assert str(refused.value).startswith(sentence)


def test_a_network_of_ones_own_comes_back(best: favano.Result, made: favano.Problem) -> None:
    network = best.model(1)
    assert type(network) is Net
    assert network.hello() == "width 5"
    assert network is not made.model
    with torch.no_grad():
        network.inner.weight.zero_()
    assert best.models[1]["inner.weight"].any()
    assert torch.equal(best.model(1).state_dict()["inner.weight"], best.models[1]["inner.weight"])
    factory = favano.simulate("favano", problem(model=lambda: Net(3)), FLEET, **KEYS)
    assert factory.model().hello() == "width 3"  # type: ignore[operator]
    for seed in (2, "a"):
        with pytest.raises(BadInput, match=rf"^seed={seed}: need one of 0, 1$"):
            best.model(seed)  # type: ignore[arg-type]


def test_what_is_saved_and_read_has_the_same_models(
    best: favano.Result, made: favano.Problem, tmp_path: Path
) -> None:
    best.save(tmp_path / "r")
    read = favano.load(tmp_path / "r")
    assert [*read.models["favano"]] == [0, 1]
    for seed, state in read.models["favano"].items():
        assert [*state] == [*Net(5).state_dict()]
        assert all(torch.equal(state[name], best.models[seed][name]) for name in state)
    (result,) = read.results
    assert result.kept == best.kept
    assert accuracy(result.model(1, network=Net(5)), made) == best.kept[1].accuracy
    with pytest.raises(BadInput, match="was made with a network or data that its files do not"):
        result.model()
    with pytest.raises(BadInput, match=r"^network=Net: is not the network that was trained: "):
        result.model(network=Net(6))
    assert all(verdict.outcome == "proved" for verdict in favano.verify(tmp_path / "r", made))


def test_a_file_with_the_last_model_is_not_taken_for_one_with_the_best(
    best: favano.Result, made: favano.Problem, tmp_path: Path
) -> None:
    last = favano.simulate("favano", made, FLEET, **KEYS)
    best.save(tmp_path / "best")
    last.save(tmp_path / "last")
    name = "model.safetensors"
    copyfile(tmp_path / "last" / name, tmp_path / "best" / name)
    words = " ".join(verdict.words for verdict in favano.verify(tmp_path / "best", made))
    assert "model.safetensors does not hold the model of its best row" in words


def test_networks_by_name_are_built(tmp_path: Path) -> None:
    keys: Any = {"holdout": 200, "horizon": 35, "progress": False, "clients": 8, "selected": 2}
    result = favano.simulate("favano", "digits", keep="best", **keys)
    result.save(tmp_path / "r")
    (read,) = favano.load(tmp_path / "r").results
    before = torch.get_rng_state()
    inputs = torch.rand(3, 1, 8, 8)
    torch.set_rng_state(before)
    assert torch.equal(result.model()(inputs), read.model()(inputs))
    assert torch.equal(torch.get_rng_state(), before)


def test_an_observer_may_ask_for_the_model(made: favano.Problem) -> None:
    seen: list[tuple[float, float]] = []

    def look(row: favano.Evaluation) -> None:
        if row["seed"] == 0:
            seen.append((accuracy(row.model(), made), float(str(row["accuracy"]))))

    result = favano.simulate("favano", made, FLEET, on_evaluate=look, **KEYS)
    assert len(seen) == 11
    assert len(set(seen)) > 1
    assert [there for there, _ in seen] == pytest.approx([here for _, here in seen])
    assert seen[-1][1] == result.final()[0]


def rows(values: list[float], seed: int = 0, best: str = "high") -> list[favano.Evaluation]:
    metrics = (MetricRecord("score", best),)  # type: ignore[arg-type]
    return [
        favano.Evaluation(
            {"method": "m", "seed": seed, "time": 10.0 * n, "score": value, "loss": -value},
            metrics, nn.Module,
        )
        for n, value in enumerate(values)
    ]  # fmt: skip


def stops_at(stop: favano.EarlyStopping, given: list[favano.Evaluation]) -> int | None:
    return next((n for n, row in enumerate(given) if stop(row) is favano.STOP), None)


NAN = float("nan")


@pytest.mark.parametrize(
    ("values", "settings", "place"),
    [
        ([1, 2, 2, 2, 9], {"patience": 2}, 3),
        ([1, 2, 2, 3, 2, 2], {"patience": 2}, 5),
        ([1, 2, 3, 4], {"patience": 1}, None),
        ([1, 1], {"patience": 1}, 1),
        ([1, 1.1, 1.2, 1.3], {"patience": 2, "least_change": 0.25}, 2),
        ([1, 1.1, 1.3, 1.4], {"patience": 2, "least_change": 0.25}, None),
        ([1, 2, 3], {"patience": 2, "metric": "loss"}, None),
        ([3, 2, 1], {"patience": 2, "metric": "loss"}, 2),
        ([1, NAN, NAN], {"patience": 2}, 2),
        ([NAN, 1, 1], {"patience": 2}, None),
    ],
)
def test_patience(values: list[float], settings: dict[str, Any], place: int | None) -> None:
    stop = favano.EarlyStopping(**settings)
    assert stops_at(stop, rows(values)) == place
    assert stops_at(stop, rows(values)) == place  # a run that begins again
    assert stops_at(stop, rows(values, seed=1)) == place
    if "metric" not in settings:
        low = [-value for value in values]
        assert stops_at(favano.EarlyStopping(**settings), rows(low, best="low")) == place


def test_each_seed_has_its_own_count() -> None:
    stop = favano.EarlyStopping(2)
    pairs = zip(rows([1, 1, 1]), rows([1, 2, 3], seed=1), strict=True)
    assert [(stop(one), stop(two)) for one, two in pairs][-1] == (favano.STOP, None)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"patience": 0}, "patience=0: need a whole number, 1 or more"),
        ({"patience": 1.5}, "patience=1.5: need a whole number, 1 or more"),
        ({"least_change": -1}, "least_change=-1: need a number >= 0"),
        ({"metric": "f1"}, "metric=f1: need one of score, loss"),
    ],
)
def test_what_early_stopping_cannot_do_is_refused(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadInput, match=f"^{sentence}"):
        favano.EarlyStopping(**settings)(rows([1])[0])


def test_a_run_is_stopped_early_and_keeps_its_best_model(
    made: favano.Problem, caplog: pytest.LogCaptureFixture
) -> None:
    whole = favano.simulate("favano", made, FLEET, **KEYS)
    stopped = favano.simulate(
        "favano",
        made,
        FLEET,
        on_evaluate=favano.EarlyStopping(patience=2),
        **{**KEYS, "keep": "best"},
    )
    for seed in (0, 1):
        mine = [row.accuracy for row in stopped.rows if row.seed == seed]
        every = [row.accuracy for row in whole.rows if row.seed == seed]
        best = max(mine)
        waited = len(mine) - 1 - mine.index(best)
        assert mine == every[: len(mine)]
        assert (waited == 2) if len(mine) < len(every) else (waited <= 2)
        assert accuracy(stopped.model(seed), made) == pytest.approx(best)
    assert len(stopped.rows) < len(whole.rows)
    assert stopped.status == "stopped"
    caplog.clear()
    on_test = problem(holdout=0)
    favano.simulate("favano", on_test, FLEET, on_evaluate=favano.EarlyStopping(), **KEYS)
    said = "early stopping looks at the test data; give holdout=N for held-out samples"
    assert said in caplog.messages


@pytest.mark.parametrize("at", [63.0, 126.0])
def test_a_broken_run_goes_on_with_its_best_model_and_its_count(
    at: float, made: favano.Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checkpoints after each evaluation; the run is broken off at one of them."""
    from favano.run import checkpoints

    monkeypatch.setattr(checkpoints, "_EVERY", 0.0)
    monkeypatch.setattr(checkpoints.Budget, "allows", lambda self, size: True)
    given: Any = {**KEYS, "seeds": 1, "keep": "best"}
    whole = favano.simulate(
        "favano", made, FLEET, on_evaluate=favano.EarlyStopping(patience=4), **given
    )

    class Breaks(favano.EarlyStopping):
        def __call__(self, row: favano.Evaluation) -> Any:
            if row["time"] == at:
                raise KeyboardInterrupt
            return super().__call__(row)

    with pytest.raises((KeyboardInterrupt, favano.Interrupted)):
        favano.simulate("favano", made, FLEET, on_evaluate=Breaks(patience=4),
                        checkpoints=tmp_path, **given)  # fmt: skip
    assert any(path.is_file() for path in tmp_path.rglob("*"))
    again = favano.simulate("favano", made, FLEET, on_evaluate=favano.EarlyStopping(patience=4),
                            checkpoints=tmp_path, **given)  # fmt: skip
    assert again.rows == whole.rows
    assert again.kept == whole.kept
    assert all(torch.equal(again.models[0][k], v) for k, v in whole.models[0].items())


def test_a_longer_run_does_not_take_a_best_model_that_it_does_not_see(
    made: favano.Problem, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The shorter run is evaluated at its horizon, where the longer one is not."""
    keys: Any = {**KEYS, "seeds": 1, "keep": "best", "evaluate_every": 40.0}
    for horizon in range(50, 200, 10):
        short = favano.simulate("favano", made, FLEET, **{**keys, "horizon": horizon})
        if short.kept[0].time == horizon and horizon % 40:
            break
    else:
        pytest.fail("no run is best at its end; choose another problem")
    favano.simulate("favano", made, FLEET, checkpoints=tmp_path, **{**keys, "horizon": horizon})
    longer: Any = {**keys, "horizon": horizon + 60}
    again = favano.simulate("favano", made, FLEET, checkpoints=tmp_path, **longer)
    whole = favano.simulate("favano", made, FLEET, **longer)
    assert again.rows == whole.rows
    assert all(torch.equal(again.models[0][k], v) for k, v in whole.models[0].items())
