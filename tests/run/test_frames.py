"""Data frames, 64-bit numbers, and targets in one column."""

from __future__ import annotations

import logging

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import favano
from favano.errors import BadInput
from favano.run.own_data import read_data


def frame(rows: int = 300) -> pd.DataFrame:
    random = np.random.default_rng(0)
    numbers = {"a": random.normal(size=rows), "b": random.integers(0, 5, rows)}
    table = pd.DataFrame(numbers | {"site": random.choice(["oslo", "rome", "lima"], rows)})
    return table.assign(y=2 * table.a - table.b, sign=table.a > 0)


def test_a_frame_is_a_regression_per_site(caplog: pytest.LogCaptureFixture) -> None:
    """By the public names alone."""
    table = frame()
    problem = favano.Problem(
        lambda: nn.Linear(2, 1),
        train=table[:240],
        test=table[240:],
        columns=(["a", "b"], "y"),
        split="column:site",
        loss=functional.mse_loss,
        metrics={"mae": favano.Metric(functional.l1_loss, best="low")},
    )
    with caplog.at_level(logging.WARNING, logger="favano"):
        result = favano.simulate("favano", problem, selected=2, learning_rate=0.05, horizon=300)
    assert result.spec.fleet.clients == 3
    assert result.final("mae")[0] < 0.2
    said = "inputs of torch.float64 become torch.float32, the type of the network"
    assert [record.message for record in caplog.records].count(said) == 1
    matrix = read_data(problem).train.inputs
    np.testing.assert_array_equal(matrix.numpy(), table[:240][["a", "b"]].to_numpy())


def test_whole_numbers_become_floats_only_where_the_network_needs_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    table = frame()
    said = "inputs of torch.int64 become torch.float32, the type of the network"
    for network, casts in (
        (nn.Linear(1, 2), 1),
        (nn.Sequential(nn.Embedding(5, 3), nn.Flatten(), nn.Linear(3, 2)), 0),
    ):
        problem = favano.Problem(network, table, table, columns=(["b"], "sign"), split="iid")
        caplog.clear()
        with caplog.at_level(logging.WARNING, logger="favano"):
            favano.simulate("fedavg", problem, favano.Fleet(clients=3), selected=2, horizon=30)
        assert [record.message for record in caplog.records].count(said) == casts


def test_rows_without_a_site_belong_to_nobody() -> None:
    table = frame()
    table.loc[[3, 5], "site"] = None
    numbered = table.assign(site=table.site.map({"oslo": 4, "rome": 7, "lima": 1}))
    for given in (table, numbered, numbered.assign(site=numbered.site.astype("Int64"))):
        problem = favano.Problem(
            nn.Linear(2, 2), given, given, columns=(["a", "b"], "sign"), split="column:site"
        )
        owners = read_data(problem).owners["site"]
        assert [*np.flatnonzero(owners < 0)] == [3, 5]
        assert len(np.unique(owners)) == 4


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({}, r"^train=columns a, b, site, y, sign: name those of inputs and targets, as columns="),
        ({"columns": (["a", "c"], "y")}, "^train=columns a, b, site, y, sign: name those of "),
        ({"columns": (["a", "y"], "y")}, "^columns=y: is an input and the target$"),
        ({"columns": (["a", "site"], "y")}, "^train=site of .*: need arrays of numbers of a type"),
        ({"columns": (["a", "a"], "y")}, "^train=columns a, b, site, y, sign: name those of "),
        ({"columns": (["a"], "y"), "split": "column:town"}, "^split=column:town: "),
    ],
)
def test_other_frames_are_refused(keys: dict[str, object], sentence: str) -> None:
    given = {"split": "column:site", "loss": functional.mse_loss, **keys}
    problem = favano.Problem(nn.Linear(2, 1), frame(), frame(), **given)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match=sentence):
        favano.simulate("fedavg", problem, selected=1, horizon=10)


X = torch.randn(200, 4, generator=torch.Generator().manual_seed(0))
Y = X @ torch.tensor([1.0, -2.0, 0.5, 3.0])


class Flat(nn.Linear):
    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs)[:, 0]


def final(network: nn.Module, targets: Tensor, loss: object = functional.mse_loss) -> list[float]:
    problem = favano.Problem(network, (X, targets), (X, targets), split="iid", loss=loss)  # type: ignore[arg-type]
    fleet = favano.Fleet(clients=4)
    keys = {"selected": 2, "learning_rate": 0.1, "horizon": 200}
    return favano.simulate("favano", problem, fleet, **keys).final("loss")  # type: ignore[arg-type]


def test_targets_fit_outputs_of_one_column() -> None:
    """As those who reshaped them by hand; the loss does not pair each output with each target."""
    torch.manual_seed(0)
    column, flat = nn.Linear(4, 1), Flat(4, 1)
    flat.load_state_dict(column.state_dict())
    expected = final(column, Y[:, None])
    assert expected[0] < 1
    assert final(column, Y) == expected
    assert final(flat, Y[:, None]) == pytest.approx(expected, rel=1e-4)


def test_a_loss_that_takes_out_the_column_itself_is_not_fooled() -> None:
    """With targets in a column it would pair each output with each target."""

    def loss(output: Tensor, target: Tensor) -> Tensor:
        return (output.squeeze(1) - target).square().mean()

    with pytest.raises(BadInput, match=r"^loss=loss: would pair every output with every target: "):
        final(nn.Linear(4, 1), Y, loss)
