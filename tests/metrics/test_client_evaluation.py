"""Scores per client: means over clients, and the tenth that is served worst."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from favano.metrics import (
    ClientEvaluator,
    ClientSamples,
    Evaluator,
    Metric,
    client_metrics,
    worst_tenth,
)
from favano.metrics.metric import accuracy
from favano.records import LOSS, MetricRecord
from favano.training import FlatModel
from favano.types import Ints

FEATURES = torch.arange(1.0, 13.0)[:, None]
PARTS: list[Ints] = [np.array([0, 1, 2, 3, 4, 5, 6, 7, 8]), np.array([9]), np.array([10, 11])]
MAE = Metric(functional.l1_loss, best="low")


def evaluator(both: bool, **metrics: Metric) -> tuple[ClientEvaluator, Tensor]:
    """A model that gives its input; targets are zero, so that errors are inputs."""
    flat = FlatModel(nn.Linear(1, 1, bias=False), device="cpu")
    targets = torch.zeros(12, 1)
    test = Evaluator(flat, FEATURES[:2], targets[:2], functional.mse_loss, metrics=metrics)
    samples = ClientSamples(PARTS, lambda places: (FEATURES[places], targets[places]))
    return ClientEvaluator(test, samples, both), torch.ones(1)


def test_every_client_counts_the_same() -> None:
    clients, model = evaluator(False, mae=MAE)
    loss, mae, worst = clients.measure(model).tolist()
    assert mae == pytest.approx((5 + 10 + 11.5) / 3)
    assert worst == 11.5  # the largest error is the worst
    assert loss == pytest.approx((285 / 9 + 100 + 132.5) / 3)


def test_beside_the_test_set() -> None:
    clients, model = evaluator(True, mae=MAE, r=Metric(lambda o, t: -o.mean(), whole=True))
    numbers = clients.measure(model).tolist()
    names = [metric.name for metric in client_metrics(clients.test.metrics, "both")]
    assert names == ["mae", "r", "mae_clients", "mae_worst", "r_clients", "r_worst"]
    mean = (5 + 10 + 11.5) / 3
    assert numbers == pytest.approx([2.5, 1.5, -1.5, mean, 11.5, -mean, -11.5])


def test_without_metrics_it_is_the_loss() -> None:
    clients, model = evaluator(False)
    assert client_metrics({}, "clients") == (MetricRecord("loss_worst", "low"),)
    assert clients.measure(model)[1] == 132.5


def test_few_samples_are_spread_over_a_client() -> None:
    clients, model = evaluator(False, mae=MAE)
    assert clients.each(model, [0, 2], 3)[:, 1].tolist() == [5.0, 11.5]  # 1, 5 and 9
    assert clients.each(model, [0], 2)[:, 1].tolist() == [5.0]  # 1 and 9


def test_a_metric_that_fails_for_a_client_is_left_out() -> None:
    def picky(output: Tensor, target: Tensor) -> float:
        if len(output) == 1:
            raise ValueError("not defined for one sample")
        return float(output.mean())

    clients, model = evaluator(False, mean=Metric(picky, whole=True))
    assert clients.each(model, [1])[0, 0] == 100.0
    beside, _ = evaluator(False, mean=Metric(picky, whole=True), mae=MAE)
    assert beside.each(model, [1])[0, 2] == 10.0  # the other metric stays
    loss, mean, worst = clients.measure(model).tolist()
    assert loss == pytest.approx((285 / 9 + 100 + 132.5) / 3)
    assert (mean, worst) == (pytest.approx((5 + 11.5) / 2), 5.0)


def test_the_worst_tenth_of_many() -> None:
    values = torch.tensor([*range(20), math.nan])
    assert worst_tenth(values, MetricRecord("f1")) == 1.0  # 0, 1 and 2 of 21
    assert worst_tenth(values, LOSS) == 18.0
    assert math.isnan(worst_tenth(values[-1:], LOSS))


def test_names_of_a_run() -> None:
    given = {"accuracy": accuracy}
    assert [metric.name for metric in client_metrics(given, "test")] == ["accuracy"]
    metrics = client_metrics(given, "both")
    assert [metric.name for metric in metrics] == ["accuracy", "accuracy_clients", "accuracy_worst"]
    assert {(metric.best, metric.unit) for metric in metrics} == {("high", "%")}
