"""Constants measured on problems where they are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from favano.data import BatchStream
from favano.run.constants import Probe, spectral_norm
from favano.training import FlatModel, Task


def least_squares(output: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    """Half the squared error."""
    return (output[:, 0] - label.to(output.dtype)).square().mean() / 2


def linear_probe(clients: int = 3, samples: int = 40) -> tuple[Probe, torch.Tensor, torch.Tensor]:
    """f_i(w) = mean (x.w - y)^2 / 2: the Hessian is X'X/N."""
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(clients * samples, 4, generator=generator, dtype=torch.float64)
    labels = torch.randint(0, 5, (clients * samples,), generator=generator)
    parts = [np.arange(i * samples, (i + 1) * samples) for i in range(clients)]
    task = Task(features, labels, BatchStream(parts, 8, 0), least_squares)
    model = nn.Linear(4, 1, bias=False)
    flat = FlatModel(model, device="cpu", dtype=torch.float64)
    return Probe(flat, task, batches=5), features, labels


def test_a_least_squares_federation() -> None:
    probe, features, labels = linear_probe()
    point = torch.tensor([0.3, -1.0, 0.5, 2.0], dtype=torch.float64)
    measured = probe.at(point)
    x = features.reshape(3, 40, 4)
    error = x @ point - labels.reshape(3, 40)
    gradient = torch.einsum("isk,is->ik", x, error) / 40
    mean = gradient.mean(dim=0)
    assert measured.loss == pytest.approx(float(error.square().mean() / 2))
    assert measured.gradient == pytest.approx(float(mean.square().sum()))
    spread = (gradient - mean).square().sum(dim=1).mean().sqrt()
    assert measured.dissimilarity == pytest.approx(float(spread))
    sharpest = max(float(torch.linalg.eigvalsh(part.T @ part / 40)[-1]) for part in x)
    assert measured.smoothness == pytest.approx(sharpest, rel=0.01)
    assert measured.smoothness <= sharpest * (1 + 1e-9)


def test_noise_of_an_epoch_is_exact() -> None:
    """Five batches of eight are the client's whole data: their mean is its gradient."""
    probe, features, labels = linear_probe(clients=1)
    point = torch.ones(4, dtype=torch.float64)
    squares = []
    error = features @ point - labels
    whole = features.T @ error / 40
    for step in range(5):
        chosen = torch.from_numpy(probe.task.batches.indices(0, step))
        drawn = features[chosen].T @ error[chosen] / 8
        squares.append(float((drawn - whole).square().sum()))
    measured = probe.at(point)
    assert measured.noise == pytest.approx(np.sqrt(np.mean(squares)))
    assert measured.noise == measured.noise_typical
    error = np.std(squares, ddof=1) / np.sqrt(5)  # of the mean of the squares
    assert measured.noise_error == pytest.approx(error / (2 * measured.noise))
    assert measured.dissimilarity == pytest.approx(0, abs=1e-6)


def test_two_batches_have_an_error_and_one_has_none() -> None:
    probe, *_ = linear_probe()
    once, two = (replace(probe, batches=count).at(torch.ones(4).double()) for count in (1, 2))
    assert once.noise_error == 0
    assert two.noise_error > 0


def test_spectral_norm_is_of_the_largest_in_absolute_value() -> None:
    matrix = torch.diag(torch.tensor([1.0, -4.0, 3.5], dtype=torch.float64))
    start = torch.ones(3, dtype=torch.float64)
    assert spectral_norm(lambda v: matrix @ v, start) == pytest.approx(4, rel=0.01)
    assert spectral_norm(lambda v: 0 * v, start) == 0


def test_measuring_changes_nothing() -> None:
    """The model given is the model still, and the next measurement is the same."""
    probe, *_ = linear_probe()
    point = torch.ones(4, dtype=torch.float64)
    assert probe.at(point) == probe.at(point)
    assert point.tolist() == [1.0] * 4
