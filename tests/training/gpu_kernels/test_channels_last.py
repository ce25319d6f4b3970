"""Images turned so that channels are last in memory."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

SHAPES = [(2, 3, 3, 5, 5), (2, 3, 10, 7, 7), (2, 2, 70, 3, 9), (1, 2, 4, 33, 40), (2, 2, 3, 1, 1)]


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.uint8])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_no_number_is_changed(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """Whatever the order in memory is; channels may be added, and nothing is copied needlessly."""
    from favano.training.gpu_kernels.channels_last import channels_last

    generator = torch.Generator("cuda").manual_seed(0)
    images = (100 * torch.rand(shape, generator=generator, device="cuda")).to(dtype)
    for given in (
        images,
        images.transpose(0, 1),
        images.movedim(2, -1).contiguous().movedim(-1, 2),
    ):
        for multiple in (1, 4):
            rest = -shape[2] % multiple
            turned = channels_last(given, multiple)
            assert turned.is_contiguous()
            assert torch.equal(turned, functional.pad(given.movedim(2, -1), (0, rest)))
    assert channels_last(given).data_ptr() == given.data_ptr()
