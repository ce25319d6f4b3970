from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from favano.errors import BadInput
from favano.models.norm import BatchNorm2d, Norm, normalisation


def pair(dtype: torch.dtype) -> tuple[BatchNorm2d, nn.BatchNorm2d]:
    """Ours and PyTorch's with the same random weights."""
    generator = torch.Generator().manual_seed(0)
    ours, theirs = BatchNorm2d(5).to(dtype), nn.BatchNorm2d(5).to(dtype)
    with torch.no_grad():
        for name in ("weight", "bias"):
            value = torch.randn(5, generator=generator, dtype=dtype)
            getattr(ours, name).copy_(value)
            getattr(theirs, name).copy_(value)
    return ours, theirs


def images(count: int, dtype: torch.dtype, size: int = 4) -> Tensor:
    generator = torch.Generator().manual_seed(count)
    return 3 + 2 * torch.randn(count, 5, size, size, generator=generator, dtype=dtype)


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
def test_equals_pytorchs_layer(dtype: torch.dtype, bound: float) -> None:
    ours, theirs = pair(dtype)
    for count in (6, 1, 9):
        mine, its = images(count, dtype).requires_grad_(), images(count, dtype).requires_grad_()
        output, expected = ours(mine), theirs(its)
        assert torch.allclose(output, expected, rtol=0, atol=bound)
        output.square().sum().backward()
        expected.square().sum().backward()
        assert mine.grad is not None
        assert its.grad is not None
        assert torch.allclose(mine.grad, its.grad, rtol=0, atol=bound * 100)
        assert theirs.running_mean is not None
        assert theirs.running_var is not None
        assert torch.allclose(ours.running_mean, theirs.running_mean, rtol=0, atol=bound)
        assert torch.allclose(ours.running_var, theirs.running_var, rtol=0, atol=bound)
    ours.eval()
    theirs.eval()
    fresh = images(3, dtype)
    assert torch.allclose(ours(fresh), theirs(fresh), rtol=0, atol=bound)


def test_running_statistics_by_hand() -> None:
    layer = BatchNorm2d(1).double()
    layer(torch.tensor([1.0, 2.0, 6.0], dtype=torch.float64).reshape(3, 1, 1, 1))
    assert layer.running_mean.item() == pytest.approx(0.1 * 3)
    assert layer.running_var.item() == pytest.approx(0.9 + 0.1 * 7)  # unbiased: 14 / 2


def test_evaluation_leaves_the_statistics_alone() -> None:
    layer = BatchNorm2d(5).eval()
    layer(images(4, torch.float32))
    assert torch.equal(layer.running_mean, torch.zeros(5))
    assert torch.equal(layer.running_var, torch.ones(5))


def test_all_buffers_can_be_averaged() -> None:
    names = [name for name, value in BatchNorm2d(5).named_buffers() if value.is_floating_point()]
    assert names == ["running_mean", "running_var"]
    assert len(list(BatchNorm2d(5).buffers())) == 2


def test_one_value_per_channel_has_no_variance() -> None:
    layer = BatchNorm2d(5)
    layer(images(8, torch.float32))
    before = {name: value.clone() for name, value in layer.named_buffers()}
    single = images(1, torch.float32, size=1)
    output = layer(single)
    assert torch.isfinite(output).all()
    assert all(torch.equal(before[name], value) for name, value in layer.named_buffers())
    layer.eval()
    assert torch.equal(output, layer(single))


@pytest.mark.parametrize(("channels", "groups"), [(16, 8), (32, 16), (64, 32), (512, 32)])
def test_group_norm_has_groups_and_no_buffers(channels: int, groups: int) -> None:
    layer = normalisation("group", channels)
    assert isinstance(layer, nn.GroupNorm)
    assert layer.num_groups == groups
    assert list(layer.buffers()) == []


def test_an_unknown_norm_is_refused() -> None:
    unknown: Norm = "layer"  # type: ignore[assignment]
    with pytest.raises(BadInput, match=r"^norm=layer: need batch or group$"):
        normalisation(unknown, 16)
