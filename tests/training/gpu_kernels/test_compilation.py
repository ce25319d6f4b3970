"""Kernels of a step that are compiled side by side before any of them is launched."""

from __future__ import annotations

from copy import deepcopy
from threading import Thread
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from favano.models.resnet import ResidualBlock

pytestmark = pytest.mark.gpu

LANES = 3


def step_of(network: nn.Module, side: int) -> list[Tensor]:
    """The gradients of all lanes, by our kernels; lanes have equal weights."""
    from favano.training.gpu_kernels import with_kernels

    layers = with_kernels(deepcopy(network).train())
    weights = {
        name: value.detach().expand(LANES, *value.shape).clone().requires_grad_()
        for name, value in layers.named_parameters()
    }
    images = torch.linspace(-1, 1, LANES * 5 * 24 * side * side, device="cuda")

    def loss(weights: dict[str, Tensor], images: Tensor) -> Tensor:
        output: Tensor = functional_call(layers, weights, (images,))
        return output.float().square().mean()

    losses = vmap(loss)(weights, images.view(LANES, 5, 24, side, side))
    return list(torch.autograd.grad(losses.sum(), list(weights.values())))


def descend_by_one(weights: Tensor) -> None:
    from favano.training.gpu_kernels import Descent

    steps, lanes = Descent([weights.shape[1]], weights.device), torch.arange(LANES, device="cuda")
    steps(weights, [torch.ones_like(weights)], torch.ones(LANES, device="cuda"), weights, lanes)


def zeros() -> Tensor:
    return torch.zeros((LANES, 7), device="cuda")


def test_kernels_are_compiled_and_not_launched() -> None:
    from favano.training.gpu_kernels import compile_kernels

    weights = zeros()
    compile_kernels(lambda: descend_by_one(weights))
    assert not weights.any()
    descend_by_one(weights)
    assert (weights == -1).all()


def test_a_step_finds_all_its_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of its backward pass, too; gradients are the same without the compilation."""
    from favano.training.gpu_kernels import compile_kernels

    triton = pytest.importorskip("triton", "3.4")  # older versions compile at the first launch
    compiled: list[str] = []

    def note(*, repr: str, **_: Any) -> None:
        compiled.append(repr)

    monkeypatch.setattr(triton.knobs.runtime, "jit_post_compile_hook", note)
    network = ResidualBlock(24, 40, 2, "group").cuda()
    compile_kernels(lambda: step_of(network, 9))
    assert len(compiled) > 4
    compiled.clear()
    gradients = step_of(network, 9)
    assert not compiled
    for gradient, same in zip(gradients, step_of(network, 9), strict=True):
        assert gradient.isfinite().all()
        torch.testing.assert_close(gradient, same)


def test_inputs_are_real() -> None:
    """A network may use them as indices."""
    from favano.training.gpu_kernels import compile_kernels, gather_inputs

    samples = torch.arange(12.0, device="cuda").view(6, 2)
    chosen = torch.tensor([[5, 0, 1], [2, 2, 3]], device="cuda")
    seen: list[Tensor] = []
    compile_kernels(lambda: seen.append(gather_inputs(samples, chosen, torch.float32, None, None)))
    assert torch.equal(seen[0], samples[chosen])


def test_other_threads_launch_kernels_meanwhile() -> None:
    from favano.training.gpu_kernels import compile_kernels

    weights, others = zeros(), zeros()

    def step() -> None:
        thread = Thread(target=descend_by_one, args=(others,))
        thread.start()
        thread.join()
        descend_by_one(weights)

    compile_kernels(step)
    torch.cuda.synchronize()
    assert not weights.any()
    assert (others == -1).all()


def test_an_interruption_leaves_nothing_behind() -> None:
    from favano.training.gpu_kernels import compile_kernels

    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compile_kernels(interrupted)
    weights = zeros()
    compile_kernels(lambda: descend_by_one(weights))
    assert not weights.any()
    descend_by_one(weights)
    assert (weights == -1).all()
