"""What a researcher brings: each task by the public interface alone, in at most 15 lines."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

import datasets
import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import Dataset

import favano

X = torch.randn(240, 4, generator=torch.Generator().manual_seed(0))
Y = X @ torch.tensor([[1.0], [-2.0], [0.5], [3.0]])
CLASSES = (Y[:, 0] > 0).long()
FLEET = favano.Fleet(clients=6)
LENGTH = 150


def network() -> nn.Module:
    return nn.Linear(4, 2)


def test_regression() -> None:
    loss, mae = functional.mse_loss, favano.Metric(functional.l1_loss, best="low", unit="kW")
    problem = favano.Problem(
        lambda: nn.Linear(4, 1), (X, Y), (X, Y), loss=loss, metrics={"mae": mae}, split="iid"
    )
    result = favano.simulate("favano", problem, FLEET, selected=3, horizon=LENGTH)
    assert result.final("mae")[0] < 0.5 * result.rows[0].metrics["mae"]


def test_next_token_loss_over_a_sequence() -> None:
    class Reader(nn.Embedding):
        def __init__(self) -> None:
            super().__init__(5, 5)

        def forward(self, tokens: Tensor) -> Tensor:
            return super().forward(tokens).transpose(1, 2)  # (N, tokens, T)

    text = (torch.arange(9) + torch.arange(200)[:, None]) % 5
    data, metrics = (text[:, :-1], text[:, 1:]), {"perplexity": favano.perplexity}
    problem = favano.Problem(Reader, data, data, split="iid", metrics=metrics)
    result = favano.simulate("favano", problem, FLEET, learning_rate=1, selected=3, horizon=LENGTH)
    assert result.final()[0] < 0.5 * result.rows[0].metrics["perplexity"]


def test_an_own_metric() -> None:
    def recall(output: Tensor, target: Tensor) -> Tensor:
        return ((output.argmax(1) == 1) & (target == 1)).sum() / target.sum().clamp(min=1)

    metrics = {"recall": favano.Metric(recall, whole=True, unit="%")}
    data = X, CLASSES
    problem = favano.Problem(network, data, data, metrics=metrics, split="iid")
    comparison = favano.compare(["favano", "fedbuff"], problem, FLEET, selected=3, horizon=LENGTH)
    assert all(0.2 < result.final("recall")[0] <= 1 for result in comparison.results)


def test_data_already_split_by_client() -> None:
    clients = [(X[:20], CLASSES[:20]), (X[20:150], CLASSES[20:150]), (X[150:], CLASSES[150:])]
    problem = favano.Problem(network, train=clients, test=clients, batch_size=16)
    result = favano.simulate(
        "favano", problem, learning_rate=1, selected=2, horizon=LENGTH, evaluate_on="clients"
    )
    assert result.spec.fleet.clients == 3
    assert result.final("accuracy_worst")[0] > 0.8


def test_a_data_set_of_hugging_face() -> None:
    columns = {"x": X.tolist(), "y": CLASSES.tolist(), "who": [f"w{k % 5}" for k in range(240)]}
    data = datasets.Dataset.from_dict(columns)
    problem = favano.Problem(network, train=data, test=data, split="column:who")
    result = favano.simulate("favano", problem, learning_rate=1, selected=2, horizon=LENGTH)
    assert result.spec.fleet.clients == 5
    assert result.accuracy[0] > 0.8


def test_a_data_set_of_pytorch() -> None:
    class Points(Dataset[tuple[Tensor, Tensor]]):
        def __len__(self) -> int:
            return len(X)

        def __getitem__(self, place: int) -> tuple[Tensor, Tensor]:
            return X[place], CLASSES[place]

    problem = favano.Problem(network, train=Points(), test=Points(), split="iid")
    result = favano.simulate("favano", problem, FLEET, learning_rate=1, selected=3, horizon=LENGTH)
    assert result.accuracy[0] > 0.8


def test_numpy_arrays(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X.numpy())
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r"), CLASSES.numpy()
    problem = favano.Problem(network, train=mapped, test=mapped, split="iid")
    result = favano.simulate("favano", problem, FLEET, learning_rate=1, selected=3, horizon=LENGTH)
    assert result.accuracy[0] > 0.8


@pytest.fixture(scope="module")
def plain() -> list[object]:
    return trained().history["loss"]


def trained(**keys: object) -> favano.Result:
    data = X, CLASSES
    problem = favano.Problem(network, data, data, split="iid")
    given = {"selected": 3, "horizon": LENGTH, **keys}
    return favano.simulate("favano-delta", problem, FLEET, **given)  # type: ignore[arg-type]


@pytest.mark.quick("{'server_optimiser': 'adam'}")
@pytest.mark.parametrize(
    "keys",
    [
        {"momentum": 0.9},
        {"optimiser": "adam", "learning_rate": 0.01},
        {"weight_decay": 0.01},
        {"clip": 0.1},
        {"rate_schedule": "cosine"},
        {"server_optimiser": "adam"},
    ],
    ids=str,
)
def test_other_ways_to_train(keys: dict[str, object], plain: list[object]) -> None:
    losses = trained(**keys).history["loss"]
    assert losses[0] == plain[0]
    assert losses[-1] != plain[-1]
    assert float(str(losses[-1])) < float(str(losses[0]))


def test_a_callback_at_each_evaluation() -> None:
    seen: list[object] = []

    def watch(row: Mapping[str, object]) -> object:
        seen.append(row["time"])
        return favano.STOP if len(seen) == 2 else None

    result = trained(on_evaluate=watch, evaluate_every=30.0)
    assert seen == [0.0, 30.0]
    assert result.status == "stopped"


def test_each_is_short_and_public() -> None:
    """Nothing of favano but its top level, and at most 15 lines."""
    tree = ast.parse(Path(__file__).read_text(encoding="utf-8"))
    tasks = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    for task in tasks:
        code = ast.unparse(task).splitlines()
        assert len([line for line in code if line.strip()]) <= 15, task.name
    imported = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert not [name for name in imported if name and name.startswith("favano")]
