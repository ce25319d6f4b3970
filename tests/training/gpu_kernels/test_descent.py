"""A step of SGD in all lanes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch


@pytest.mark.gpu
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    "shapes",
    [
        *([(50, 100)], [(1,)], [(), (3, 5, 5), (1, 70), (70, 60), (64, 1), ()]),
        *([(100, 100), (64, 64)], [()]),
    ],
    ids=str,
)
def test_each_lane_steps_at_its_own_rate(shapes: Sequence[tuple[int, ...]], turned: bool) -> None:
    """From a copy of some lanes; other lanes, and what is not a parameter, stay.

    Small gradients are joined; turned gradients are stored column by column.
    """
    from favano.training.gpu_kernels import Descent

    generator = torch.Generator("cuda").manual_seed(0)
    sizes = [torch.Size(shape).numel() for shape in shapes]
    stack = torch.randn(5, sum(sizes) + 17, generator=generator, device="cuda")
    before, rows = stack.clone(), torch.tensor([4, 0, 2], device="cuda")
    models, rates = stack[rows], torch.tensor([0.1, 2.0, 0.0], device="cuda")
    gradients = [torch.randn(3, *shape, generator=generator, device="cuda") for shape in shapes]
    if turned:
        gradients = [part.mT.contiguous().mT if part.ndim > 2 else part for part in gradients]
    Descent(sizes, stack.device)(models, gradients, rates, stack, rows)
    moves = torch.cat([gradient.reshape(3, -1) for gradient in gradients], dim=1)
    before[rows, : sum(sizes)] -= rates[:, None] * moves
    torch.testing.assert_close(stack, before)
