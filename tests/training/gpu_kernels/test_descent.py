"""A step of SGD in all lanes."""

from __future__ import annotations

import pytest
import torch


@pytest.mark.gpu
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("shape", [(50, 100), (1,), (3, 5, 5), (1, 70), (64, 1)], ids=str)
def test_each_lane_steps_at_its_own_rate(shape: tuple[int, ...], turned: bool) -> None:
    """Weights are a part of a stack of models, and the rest of the stack stays.

    Turned gradients are stored column by column.
    """
    from favano.training.gpu_kernels import descend

    generator = torch.Generator("cuda").manual_seed(0)
    count = torch.Size(shape).numel()
    models = torch.randn(3, count + 17, generator=generator, device="cuda")
    before = models.clone()
    weights = models[:, 7 : 7 + count].view(3, *shape)
    gradients = torch.randn(3, *shape, generator=generator, device="cuda")
    if turned:
        gradients = gradients.mT.contiguous().mT if len(shape) > 1 else gradients
    descend(weights, gradients, torch.tensor([0.1, 2.0, 0.0], device="cuda"))
    before[0, 7 : 7 + count] -= 0.1 * gradients[0].flatten()
    before[1, 7 : 7 + count] -= 2.0 * gradients[1].flatten()
    torch.testing.assert_close(models, before)
