"""Tensors and networks of one's own: named as such, with defaults that are said."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import favano
from favano.errors import BadInput
from favano.run.result_folder import check_folder, write_result
from favano.specification.presets import resolve

GIVEN = {
    "split": "iid", "clients": 4, "selected": 2, "local_steps": 2, "learning_rate": 0.1,
    "batch_size": 8, "horizon": 70.0, "evaluate_every": 35.0,
}  # fmt: skip


def pair(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(rows)
    return torch.randn(rows, 5), torch.arange(rows) % 3


def simulated(spec: favano.Spec) -> favano.Result:
    return favano.simulate(spec, model=lambda: nn.Linear(5, 3), train=pair(120), test=pair(30))


def test_the_result_is_not_called_digits(tmp_path: Path) -> None:
    result = simulated(favano.make_spec(GIVEN))
    assert (result.spec.problem.dataset, result.spec.problem.model) == ("own", "own")
    write_result(tmp_path, result, "python")
    check_folder(tmp_path, result.spec)
    again = simulated(result.spec)  # may be run again as it is
    assert again.rows == result.rows


def test_what_was_left_open_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    result = simulated(favano.Spec(horizon=70, local_steps=2))
    assert capsys.readouterr().err == (
        "favano: own data; not given, so taken: split=iid, clients=20, selected=5, "
        "learning_rate=0.05, batch_size=32, evaluate_every=50\n"
    )
    assert (
        result.spec.fleet.clients,
        result.spec.problem.split,
        result.spec.training.learning_rate,
    ) == (20, "iid", 0.05)
    simulated(favano.Spec(algorithm="fedbuff", horizon=70, local_steps=2))
    assert "buffer=5" in capsys.readouterr().err  # which FAVANO has none of


def test_nothing_is_said_where_all_was_given(capsys: pytest.CaptureFixture[str]) -> None:
    simulated(favano.make_spec(GIVEN))
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("dataset", ["mnist", "digits"])
def test_a_name_beside_own_data_is_refused(dataset: str) -> None:
    spec = favano.make_spec({**GIVEN, "dataset": dataset})
    with pytest.raises(BadInput, match=f"dataset={dataset}: own data were given; leave it out"):
        simulated(spec)
    with pytest.raises(BadInput, match="model=perceptron: a network of your own was given"):
        simulated(favano.make_spec({**GIVEN, "model": "perceptron"}))


def test_an_own_network_on_named_data(capsys: pytest.CaptureFixture[str]) -> None:
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    keys = {**GIVEN, "clients": 10}
    result = favano.simulate(favano.make_spec(keys), model=network)
    assert (result.spec.problem.dataset, result.spec.problem.model) == ("digits", "own")
    assert capsys.readouterr().err == ""
    with pytest.raises(BadInput, match="model=resnet20: a network of your own was given"):
        favano.simulate(favano.make_spec({**keys, "model": "resnet20"}), model=network)


def test_own_data_must_be_there() -> None:
    with pytest.raises(BadInput, match="dataset=own: need train and test"):
        favano.simulate(favano.Spec(dataset="own"), model=nn.Linear(5, 3))


def test_other_data_keep_their_constants() -> None:
    for dataset, clients in (("digits", 30), ("mnist", 100), ("some/folder", 100)):
        assert resolve(favano.Spec(dataset=dataset)).clients == clients


@pytest.mark.parametrize(("key", "value"), [("holdout", 10), ("data_fraction", 0.5)])
def test_what_is_for_named_data_is_refused(key: str, value: float) -> None:
    spec = favano.make_spec({**GIVEN, key: value})
    with pytest.raises(BadInput, match=f"^{key}={value}: is for data sets by name"):
        simulated(spec)


def test_inputs_are_of_one_type() -> None:
    features, labels = pair(30)
    with pytest.raises(BadInput, match=r"^test=torch.float64: need inputs of one type"):
        favano.simulate(
            favano.make_spec(GIVEN),
            model=lambda: nn.Linear(5, 3),
            train=pair(120),
            test=(features.double(), labels),
        )
