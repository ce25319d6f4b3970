"""Tensors and networks of one's own: named as such, with defaults that are said."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
import torch
from torch import nn

import favano
from favano.errors import BadInput
from favano.run.result_folder import check_folder, write_result
from favano.specification.keys import Keys
from tests.specs import complete

GIVEN: Keys = {
    "selected": 2, "local_steps": 2, "learning_rate": 0.1, "horizon": 70.0,
    "evaluate_every": 35.0,
}  # fmt: skip
FLEET = favano.Fleet(clients=4)


def pair(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(rows)
    return torch.randn(rows, 5), torch.arange(rows) % 3


def own(split: str | None = "iid", batch_size: int | None = 8) -> favano.Problem:
    return favano.Problem(
        lambda: nn.Linear(5, 3), train=pair(120), test=pair(30), split=split, batch_size=batch_size
    )


def test_the_result_is_not_called_digits(tmp_path: Path) -> None:
    result = favano.simulate("favano", own(), FLEET, **GIVEN)
    assert (result.spec.problem.dataset, result.spec.problem.model) == ("own", "own")
    write_result(tmp_path, result, "python")
    check_folder(tmp_path, result.spec)
    again = favano.simulate("favano", own(), FLEET, **GIVEN)
    assert again.rows == result.rows


def test_what_was_left_open_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    open_ = own(split=None, batch_size=None)
    result = favano.simulate("favano", open_, horizon=70, local_steps=2)
    assert capsys.readouterr().err == (
        "favano: own data; not given, so taken: split=iid, clients=20, selected=5, "
        "learning_rate=0.05, batch_size=32, evaluate_every=50\n"
    )
    assert (
        result.spec.fleet.clients,
        result.spec.problem.split,
        result.spec.training.learning_rate,
    ) == (20, "iid", 0.05)
    favano.simulate("fedbuff", open_, horizon=70, local_steps=2)
    assert "buffer=5" in capsys.readouterr().err  # which FAVANO has none of


def test_of_several_methods_it_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    favano.compare(["favano", "fedbuff"], own(), FLEET, **GIVEN)
    assert capsys.readouterr().err == "favano: own data; not given, so taken: buffer=5\n"


def test_nothing_is_said_where_all_was_given(capsys: pytest.CaptureFixture[str]) -> None:
    favano.simulate("favano", own(), FLEET, **GIVEN)
    favano.simulate(favano.FedBuff(buffer=2), own(), FLEET, **GIVEN)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("dataset", ["mnist", "digits"])
def test_a_name_beside_own_data_is_refused(dataset: str) -> None:
    with pytest.raises(BadInput, match=f"dataset={dataset}: own data were given; leave it out"):
        favano.Problem(nn.Linear(5, 3), train=pair(60), test=pair(30), dataset=dataset)


def test_an_own_network_on_named_data(capsys: pytest.CaptureFixture[str]) -> None:
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    problem = favano.Problem(network, dataset="digits", split="iid", batch_size=8)
    result = favano.simulate("favano", problem, favano.Fleet(clients=10), **GIVEN)
    assert (result.spec.problem.dataset, result.spec.problem.model) == ("digits", "own")
    assert capsys.readouterr().err == ""


def test_own_data_must_be_there() -> None:
    with pytest.raises(BadInput, match="dataset=own: need train and test"):
        favano.Problem(nn.Linear(5, 3), dataset="own")
    with pytest.raises(BadInput, match="dataset=own: need train and test"):
        favano.simulate("favano", "own")


def test_other_data_keep_their_constants() -> None:
    for dataset, clients in (("digits", 30), ("mnist", 100), ("some/folder", 100)):
        assert complete(dataset=dataset).fleet.clients == clients


@pytest.mark.parametrize(("key", "value"), [("holdout", 10), ("data_fraction", 0.5)])
def test_what_is_for_named_data_is_refused(
    key: Literal["holdout", "data_fraction"], value: float
) -> None:
    holdout = int(value) if key == "holdout" else 0
    fraction = value if key == "data_fraction" else 1.0
    with pytest.raises(BadInput, match=f"^{key}={value}: is for data sets by name"):
        favano.Problem(
            nn.Linear(5, 3), train=pair(60), test=pair(30), holdout=holdout, data_fraction=fraction
        )


def test_inputs_are_of_one_type() -> None:
    features, labels = pair(30)
    problem = favano.Problem(
        lambda: nn.Linear(5, 3), train=pair(120), test=(features.double(), labels), split="iid"
    )
    with pytest.raises(BadInput, match=r"^test=torch.float64: need inputs of one type"):
        favano.simulate("favano", problem, FLEET, **GIVEN)
