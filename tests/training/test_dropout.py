"""Dropout draws by (seed, client, step): the same on every kind of lane."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from favano.data import BatchStream
from favano.quantisation import Recipe
from favano.training import (
    FlatModel,
    GradientTrace,
    Job,
    LocalRule,
    LoopTrainer,
    Task,
    check_fit,
    one_thread,
)
from favano.training.dropout import KeyedDropout
from tests.training.test_stack_lanes import check_equal

KEY = torch.tensor(12345)
FEW_BITS = Recipe(quantised_layers="all")


def hidden() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Dropout(0.1), nn.Linear(36, 7), nn.ReLU(), nn.Dropout(), nn.Linear(7, 4)
    )


def in_place() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(36, 7), nn.Dropout(inplace=True), nn.ReLU(), nn.Linear(7, 4)
    )


def channels() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Dropout2d(0.3), nn.Flatten(),
        nn.Linear(48, 4),
    )  # fmt: skip


def scaled() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.SELU(), nn.FeatureAlphaDropout(0.2), nn.Flatten(),
        nn.AlphaDropout(0.2), nn.Linear(48, 4),
    )  # fmt: skip


class ByHand(nn.Module):
    """Calls the functions; the batch is not the first dimension."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(36, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        turned = functional.dropout(inputs.flatten(1).T, 0.4, self.training).T
        dropped = functional.dropout1d(turned[:, None], p=0.1, training=self.training)[:, 0]
        output: Tensor = self.layer(dropped)
        return output


NETWORKS = [hidden, in_place, channels, scaled, ByHand]


@pytest.mark.parametrize("make", NETWORKS)
@pytest.mark.parametrize("proximal", [0.0, 0.5])
@pytest.mark.parametrize("capacity", [1, 5])
def test_stacked_lanes_equal_the_loop(make: object, proximal: float, capacity: int) -> None:
    check_equal(make, False, functional.cross_entropy, proximal, capacity, "cpu", corrected=1)


@pytest.mark.parametrize("make", [hidden, channels])
def test_with_few_bits_too(make: object) -> None:
    check_equal(make, True, functional.cross_entropy, 0.5, 5, "cpu", recipe=FEW_BITS)


@pytest.mark.gpu
@pytest.mark.parametrize("recipe", [None, FEW_BITS])
@pytest.mark.parametrize("make", NETWORKS)
def test_stacked_lanes_equal_the_loop_on_cuda(make: object, recipe: Recipe | None) -> None:
    check_equal(make, True, functional.cross_entropy, 0.5, 5, "cuda", recipe=recipe)


def task(seed: int = 3) -> Task:
    generator = torch.Generator().manual_seed(2)
    features = torch.randn(40, 1, 6, 6, generator=generator)
    labels = torch.randint(0, 4, (40,), generator=generator)
    return Task(features, labels, BatchStream([np.arange(0, 20), np.arange(20, 40)], 5, seed))


def checked(make: Callable[[], nn.Module]) -> FlatModel:
    torch.manual_seed(1)
    model = FlatModel(make(), device="cpu")
    check_fit(model, task(), classes=4)
    return model


@pytest.mark.parametrize("make", NETWORKS)
def test_a_trace_ends_where_autograd_ends(
    make: Callable[[], nn.Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the bit, drawing anew in every step."""
    monkeypatch.setattr(GradientTrace, "_pays", lambda self, batch: True)
    monkeypatch.setattr(GradientTrace, "_is_heavy", lambda self, batch: False)
    model, data, job = checked(make), task(), Job(0, 1, 2, 6, 0.2)
    start = model.snapshot()
    with one_thread():
        gradient = GradientTrace(model, data.loss)
        assert gradient.prepare([data.batch(client, 0, torch.float32) for client in (0, 1)])
        plain = LoopTrainer(model, data, LocalRule(0.1)).run(start, job)
        found = LoopTrainer(model, data, LocalRule(0.1), gradient).run(start, job)
    assert torch.equal(found, plain)


def drawn(make: Callable[[], nn.Module], seed: int, client: int, step: int) -> Tensor:
    """The model after one step on data that are the same for all clients and steps."""
    data, model = task(seed), checked(make)
    data.features[:], data.labels[:] = data.features[:1], data.labels[:1]
    return LoopTrainer(model, data, LocalRule()).run(model.snapshot(), Job(0, client, step, 1, 0.1))


@pytest.mark.parametrize("make", NETWORKS)
def test_seeds_clients_and_steps_draw_differently(make: Callable[[], nn.Module]) -> None:
    """Whatever the state of PyTorch's generator."""
    torch.manual_seed(0)
    places = [(3, 0, 0), (3, 0, 1), (3, 1, 0), (4, 0, 0)]
    found = [drawn(make, *place) for place in places]
    torch.manual_seed(99)
    torch.rand(7)
    assert torch.equal(drawn(make, *places[0]), found[0])
    for number, one in enumerate(found):
        assert all(not torch.equal(one, other) for other in found[:number])


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_the_share_of_zeros_is_p_and_the_mean_stays(p: float) -> None:
    ones = torch.ones(200, 500)
    with KeyedDropout(KEY):
        found = functional.dropout(ones, p)
        other = functional.dropout(ones, p)
    assert float((found == 0).float().mean()) == pytest.approx(p, abs=0.01)
    assert torch.allclose(found[found != 0], torch.tensor(1 / (1 - p)))
    both = float(((found == 0) & (other == 0)).float().mean())
    assert both == pytest.approx(p**2, abs=0.01)  # calls of one step are independent


def test_channels_are_dropped_as_a_whole() -> None:
    with KeyedDropout(KEY):
        two = functional.dropout2d(torch.ones(50, 40, 3, 3), 0.3)
        three = functional.dropout3d(torch.ones(2000, 2, 2, 2), 0.3)  # without a batch
        one = functional.dropout1d(torch.ones(2000, 4), 0.3)
    for found in (two.flatten(0, 1).flatten(1), three.flatten(1), one):
        assert torch.equal(found.amin(dim=1), found.amax(dim=1))
        assert float((found == 0).float().mean()) == pytest.approx(0.3, abs=0.05)


@pytest.mark.parametrize("name", ["alpha_dropout", "feature_alpha_dropout"])
def test_alpha_dropout_keeps_mean_and_variance(name: str) -> None:
    values = torch.randn(300, 200, generator=torch.Generator().manual_seed(0))
    values = functional.selu(values)
    with KeyedDropout(KEY):
        found = getattr(functional, name)(values, 0.2, True)
        assert getattr(functional, name)(values, 0.2) is values  # not in training by default
    assert float(found.mean()) == pytest.approx(float(values.mean()), abs=0.02)
    assert float(found.std()) == pytest.approx(float(values.std()), abs=0.03)


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_all_or_nothing(p: float) -> None:
    values = torch.randn(4, 5)
    with KeyedDropout(KEY):
        assert torch.equal(functional.dropout(values, p), (1 - p) * values)
        assert torch.equal(functional.alpha_dropout(values, p, True), (1 - p) * values)


def test_wrong_probabilities_are_left_to_pytorch() -> None:
    with (
        KeyedDropout(KEY),
        pytest.raises(ValueError, match="probability has to be between 0 and 1"),
    ):
        functional.dropout(torch.ones(3), 1.5)
