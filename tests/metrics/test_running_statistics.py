"""Running statistics: as after many passes of one batch, to the bit, if possible in one pass."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from favano.metrics import running_statistics
from favano.metrics.running_statistics import load_with_statistics
from favano.models import BatchNorm2d, build
from favano.preflight.draws import find_draws
from favano.training import FlatModel

PASSES = 60


class Counting(nn.Conv2d):
    """A convolution that counts its passes."""

    passes = 0

    def forward(self, inputs: Tensor) -> Tensor:
        Counting.passes += 1
        return super().forward(inputs)


class Smoothed(nn.Module):
    """A layer whose outputs depend on its statistics, also in training."""

    mean: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, inputs: Tensor) -> Tensor:
        if self.training:
            self.mean.mul_(0.9).add_(inputs.mean(dim=(0, 2, 3)), alpha=0.1)
        return inputs - self.mean[:, None, None]


class Twice(nn.Sequential):
    """Layers that are called twice."""

    def forward(self, inputs: Tensor) -> Tensor:
        for layer in (*self, *self):
            inputs = layer(inputs)
        return inputs


class Named(nn.Module):
    """A layer whose input is given by name."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(4)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.norm(input=inputs)  # type: ignore[no-any-return]


class Borrowed(Named):
    """A layer whose statistics are used without calling it."""

    def forward(self, inputs: Tensor) -> Tensor:
        norm = self.norm
        statistics = norm.running_mean, norm.running_var
        return functional.batch_norm(inputs, *statistics, training=self.training)


def network(*more: nn.Module) -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(Counting(1, 4, 3), *more, nn.Flatten(), nn.Linear(64, 3))


CASES: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "ours": (lambda: network(BatchNorm2d(4)), 1),
    "PyTorch's": (lambda: network(nn.BatchNorm2d(4), nn.ReLU(), nn.BatchNorm2d(4)), 1),
    "cumulative": (lambda: network(nn.BatchNorm2d(4, momentum=None)), 1),
    "instance": (lambda: network(nn.InstanceNorm2d(4, track_running_stats=True)), 1),
    "none": (lambda: network(nn.GroupNorm(2, 4)), 0),
    "by name": (lambda: network(Named()), 1),
    "never called": (lambda: network(Borrowed()), 1 + PASSES),
    "own layer": (lambda: network(nn.BatchNorm2d(4), Smoothed()), PASSES),
    "twice": (lambda: network(Twice(BatchNorm2d(4), nn.ReLU())), 1 + PASSES),
    "dropout": (lambda: network(nn.Dropout(0.3), BatchNorm2d(4)), PASSES),
}


@pytest.mark.parametrize("name", CASES)
def test_statistics_are_those_of_many_passes(name: str) -> None:
    make, expected = CASES[name]
    model = FlatModel(make(), device="cpu")
    inputs = torch.randn(7, 1, 6, 6, generator=torch.Generator().manual_seed(1))
    find_draws(model, functional.cross_entropy, (inputs[:2], torch.arange(2)))
    vector = model.snapshot()
    Counting.passes = 0
    load_with_statistics(model, vector, inputs)
    snapshot = model.snapshot()
    assert Counting.passes == expected
    model.load(vector)
    model.module.train()
    with torch.no_grad():
        for number in range(PASSES):
            if model.draws is not None:
                model.draws.set(number, model.vector.device)
            with model.drawing():
                model.module(inputs)
    assert torch.equal(snapshot, model.snapshot())
    assert torch.equal(snapshot, vector) == (name == "none")
    parameters = model.layout.parameters
    assert torch.equal(snapshot[:parameters], vector[:parameters])


def test_no_hook_is_left_if_a_pass_fails() -> None:
    model = FlatModel(network(BatchNorm2d(4)), device="cpu")
    with pytest.raises(RuntimeError):
        load_with_statistics(model, model.snapshot(), torch.zeros(7, 2, 6, 6))
    assert not any(layer._forward_hooks for layer in model.module.modules())


def test_a_residual_network_needs_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    model = FlatModel(build("resnet20", input_shape=(1, 8, 8), classes=10), device="cpu")
    passes = list[nn.Module]()
    model.module.register_forward_hook(lambda module, *_: passes.append(module))
    monkeypatch.setattr(running_statistics, "_PASSES", 3)
    load_with_statistics(model, model.snapshot(), torch.randn(4, 1, 8, 8))
    assert len(passes) == 1
