"""Gradients of convolutions as products, against PyTorch's."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from favano.training import convolution_products
from favano.training.convolution_products import ConvolutionProducts

LAYERS = {
    "3 x 3": nn.Conv2d(3, 5, 3, padding=1),
    "without bias": nn.Conv2d(3, 5, 3, bias=False),
    "1 x 1": nn.Conv2d(3, 5, 1),
    "oblong": nn.Conv2d(3, 5, (2, 4), padding=(1, 3)),
    "strided": nn.Conv2d(3, 5, 3, stride=2, padding=1),
    "dilated": nn.Conv2d(3, 5, 3, dilation=2),
    "in groups": nn.Conv2d(3, 6, 3, groups=3),
    "same size": nn.Conv2d(3, 5, 3, padding="same"),
    "wide borders": nn.Conv2d(3, 5, 2, padding=3),
    "other borders": nn.Conv2d(3, 5, 3, padding=1, padding_mode="reflect"),
}
OWN = {"3 x 3", "without bias", "1 x 1", "oblong", "other borders"}  # with gradients of ours


def gradients(layer: nn.Module, images: Tensor) -> list[Tensor]:
    wanted = [images.requires_grad_(), *layer.parameters()]
    out = layer(images)
    rising = torch.arange(out.numel(), dtype=out.dtype).view_as(out)
    return [out.detach(), *torch.autograd.grad((out * rising).sum(), wanted)]


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("last", [True, False], ids=["channels last", "plain"])
def test_gradients_are_those_of_pytorch(
    name: str, last: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer, seen = LAYERS[name].double(), list[str]()
    apply = convolution_products._Convolution.apply

    def noting(*given: object) -> Tensor:
        seen.append(name)
        output: Tensor = apply(*given)  # type: ignore[no-untyped-call]
        return output

    monkeypatch.setattr(convolution_products._Convolution, "apply", noting)
    images = torch.randn(2, 3, 7, 8, dtype=torch.float64)
    images = images.contiguous(memory_format=torch.channels_last) if last else images
    wanted = gradients(layer, images)
    with ConvolutionProducts():
        actual = gradients(layer, images)
    for gradient, other in zip(actual, wanted, strict=True):
        torch.testing.assert_close(gradient, other, rtol=1e-10, atol=1e-10)
    assert bool(seen) == (name in OWN)


def test_only_what_is_wanted_has_a_gradient() -> None:
    layer, images = nn.Conv2d(2, 3, 3), torch.randn(1, 2, 5, 5)
    layer.weight.requires_grad_(False)
    with ConvolutionProducts():
        layer(images).sum().backward()
        image = functional.conv2d(images[0], layer.weight)  # one image without a batch
    assert layer.weight.grad is None
    assert layer.bias is not None
    assert layer.bias.grad is not None
    assert image.shape == (3, 3, 3)
