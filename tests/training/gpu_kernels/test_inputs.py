"""The kernel of inputs against PyTorch: the same bits."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from favano.data import Preprocessing
from favano.data.transforms import augment, byte_table, crops_of, to_float

pytestmark = pytest.mark.gpu

SAMPLES, LANES, BATCH = 20, 3, 6
BOTH_TYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])


def chosen_samples() -> Tensor:
    """The last lane is one that a launch is padded with: all its places hold sample 0."""
    generator = torch.Generator("cuda").manual_seed(0)
    chosen = torch.randint(0, SAMPLES, (LANES, BATCH), generator=generator, device="cuda")
    chosen[0, -1], chosen[-1] = SAMPLES - 1, 0
    return chosen


@BOTH_TYPES
@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize(("padding", "flip"), [(0, False), (0, True), (4, False), (2, True)])
@pytest.mark.parametrize(
    "shape", [(1, 28, 28), (3, 32, 32), (3, 5, 7), (1, 1, 1), (2, 33, 31)], ids=str
)
def test_raw_images(
    shape: tuple[int, ...], padding: int, flip: bool, normalised: bool, dtype: torch.dtype
) -> None:
    """Images of more than one program, too, and crops that are mostly border."""
    from favano.training.gpu_kernels import gather_inputs

    mean = tuple(0.1 + 0.2 * number for number in range(shape[0])) if normalised else ()
    std = tuple(0.3 + value for value in mean)
    steps = Preprocessing(255.0, mean, std, crop_padding=padding, flip=flip)
    generator = torch.Generator("cuda").manual_seed(1)
    images = torch.randint(0, 256, (SAMPLES, *shape), generator=generator, device="cuda")
    images, chosen = images.to(torch.uint8), chosen_samples()
    draws = torch.rand((LANES, BATCH, 3), generator=generator, device="cuda")
    draws[0, :4, :2] = torch.tensor([[0.0, 1.0], [1.0, 0.0], [0.5, 0.5], [0.999, 0.001]]).cuda()
    draws[0, :2, 2] = torch.tensor([0.5, 0.499])  # the first is not flipped
    crops = crops_of(steps, draws) if steps.augments else None
    table = byte_table(steps, images, torch.float32).to(dtype)
    inputs = gather_inputs(images, chosen, dtype, table, crops)
    wanted = to_float(augment(images[chosen], steps, draws), steps).to(dtype)
    assert inputs.dtype == dtype
    assert inputs.is_contiguous()
    assert torch.equal(inputs, wanted)


@BOTH_TYPES
@pytest.mark.parametrize("shape", [(1, 28, 28), (1500,), (3, 5), (1,)], ids=str)
def test_floats(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """Numbers of any size, and halfway between two of bf16; NaN stays."""
    from favano.training.gpu_kernels import gather_inputs

    generator = torch.Generator("cuda").manual_seed(1)
    samples = torch.randn((SAMPLES, *shape), generator=generator, device="cuda")
    samples *= 10.0 ** torch.arange(-10, 10, device="cuda").view(-1, *[1] * len(shape))
    samples[::3] = (samples[::3].view(torch.int32) & ~0xFFFF | 0x8000).view(torch.float32)
    samples[1], samples[2], samples[4] = float("nan"), float("-inf"), -0.0
    chosen = chosen_samples()
    chosen[1, :3] = torch.tensor([1, 2, 4])
    inputs = gather_inputs(samples, chosen, dtype, None, None)
    torch.testing.assert_close(inputs, samples[chosen].to(dtype), rtol=0, atol=0, equal_nan=True)


def test_samples_far_apart_in_memory() -> None:
    """Positions above 2**31, among the samples and among the inputs."""
    from favano.training.gpu_kernels import gather_inputs

    side = 1 << 12  # 2**24 pixels
    images = torch.zeros((130, 1, side, side), dtype=torch.uint8, device="cuda")
    images[:, 0, -1, -1] = torch.arange(130, device="cuda").to(torch.uint8)
    steps = Preprocessing(1.0)
    chosen = torch.arange(129, -1, -1, device="cuda").view(2, 65)
    table = byte_table(steps, images, torch.float32).bfloat16()
    inputs = gather_inputs(images, chosen, torch.bfloat16, table, None)
    assert torch.equal(inputs[..., -1, -1].long().flatten(), chosen.flatten())
    assert not inputs[..., :-1, :].any()
