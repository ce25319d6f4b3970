from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from favano.data.preprocessing import Preprocessing
from favano.data.transforms import augment, augmentation_draws, crops_of, to_float
from favano.errors import BadInput
from favano.rng import Stream, uniform

CIFAR = Preprocessing(
    scale=255.0, mean=(0.5, 0.4, 0.3), std=(0.2, 0.3, 0.1), crop_padding=4, flip=True
)


def raw(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(1, 256, shape, generator=generator, dtype=torch.uint8)


def one_by_one(images: Tensor, preprocessing: Preprocessing, draws: Tensor) -> Tensor:
    """The plain loop: pad, crop, flip each image (B, C, H, W)."""
    padding = preprocessing.crop_padding
    changed = []
    for image, (vertical, horizontal, mirror) in zip(images, draws.tolist(), strict=True):
        channels, height, width = image.shape
        canvas = torch.zeros(channels, height + 2 * padding, width + 2 * padding, dtype=image.dtype)
        canvas[:, padding : padding + height, padding : padding + width] = image
        top, left = int(vertical * (2 * padding + 1)), int(horizontal * (2 * padding + 1))
        crop = canvas[:, top : top + height, left : left + width]
        changed.append(crop.flip(-1) if preprocessing.flip and mirror < 0.5 else crop)
    return torch.stack(changed)


@pytest.mark.parametrize("padding", [0, 2, 4])
@pytest.mark.parametrize("flip", [False, True])
def test_augment_equals_the_plain_loop(padding: int, flip: bool) -> None:
    preprocessing = Preprocessing(scale=255.0, crop_padding=padding, flip=flip)
    images, draws = raw(64, 3, 8, 6), torch.from_numpy(augmentation_draws(0, 1, 2, 64))
    changed = augment(images, preprocessing, draws)
    assert changed.dtype == torch.uint8
    assert torch.equal(changed, one_by_one(images, preprocessing, draws))
    assert torch.equal(changed, images) is not preprocessing.augments


def test_lanes_are_augmented_each_by_its_own_draws() -> None:
    images = raw(2, 3, 5, 3, 8, 8)  # lanes (2, 3), batch 5
    draws = torch.rand(2, 3, 5, 3, generator=torch.Generator().manual_seed(1))
    changed = augment(images, CIFAR, draws)
    for row in range(2):
        for lane in range(3):
            expected = one_by_one(images[row, lane], CIFAR, draws[row, lane])
            assert torch.equal(changed[row, lane], expected)
    mapped = torch.func.vmap(lambda image, draw: augment(image, CIFAR, draw))
    assert torch.equal(mapped(images[0], draws[0]), changed[0])


def test_every_place_and_both_directions_occur() -> None:
    preprocessing = Preprocessing(scale=255.0, crop_padding=1, flip=True)
    image = torch.arange(1, 10, dtype=torch.uint8).reshape(1, 1, 3, 3).expand(2000, 1, 3, 3)
    draws = torch.from_numpy(augmentation_draws(0, 0, 0, 2000))
    changed = augment(image, preprocessing, draws).flatten(1)
    kinds, counts = np.unique(changed.numpy(), axis=0, return_counts=True)
    assert len(kinds) == 9 * 2
    assert counts.min() > 60  # 111 expected


def test_a_draw_rounded_up_to_one_stays_inside() -> None:
    preprocessing = Preprocessing(scale=255.0, crop_padding=1)
    changed = augment(raw(1, 1, 3, 3), preprocessing, torch.ones(1, 3))
    assert changed.shape == (1, 1, 3, 3)
    assert torch.equal(changed[0, 0, 2], torch.zeros(3, dtype=torch.uint8))


def test_to_float_scales_and_normalises_each_channel() -> None:
    images = raw(2, 4, 3, 5, 5)
    normalised = to_float(images, CIFAR, torch.float64)
    assert normalised.dtype == torch.float64
    for channel in range(3):
        expected = images[:, :, channel].double() / 255 - CIFAR.mean[channel]
        expected /= CIFAR.std[channel]
        assert torch.allclose(normalised[:, :, channel], expected, rtol=0, atol=1e-14)
    plain = to_float(images, Preprocessing(scale=16.0))
    assert plain.dtype == torch.float32
    assert torch.equal(plain, images.float() / 16)


def test_draws_are_a_function_of_seed_client_and_step() -> None:
    lanes = augmentation_draws(3, np.array([4, 9]), np.array([0, 7]), 5)
    assert lanes.shape == (2, 5, 3)
    assert np.array_equal(lanes[0], augmentation_draws(3, 4, 0, 5))
    assert np.array_equal(lanes[1], augmentation_draws(3, 9, 7, 5))
    assert np.array_equal(lanes[1].ravel()[4], uniform(3, Stream.AUGMENTATION, 9, 7 * 2**24 + 4))


def test_a_shorter_batch_has_the_same_first_draws_and_steps_do_not_overlap() -> None:
    long, short = augmentation_draws(0, 1, 2, 128), augmentation_draws(0, 1, 2, 30)
    assert np.array_equal(long[:30], short)
    following = augmentation_draws(0, 1, 3, 128)
    assert not set(long.ravel().tolist()) & set(following.ravel().tolist())


def test_an_impossible_batch_is_refused() -> None:
    with pytest.raises(BadInput, match=r"^batch=0: need 1\.\.5592405$"):
        augmentation_draws(0, 0, 0, 0)
    with pytest.raises(BadInput, match=r"^batch=5592406: need 1\.\.5592405$"):
        augmentation_draws(0, 0, 0, 5592406)


def test_draws_below_one_half_are_flipped() -> None:
    draws = torch.tensor([[0.0, 0.0, 0.5], [0.0, 0.0, 0.4999], [0.0, 0.0, 0.0]])
    _, flipped = crops_of(CIFAR, draws)
    assert flipped is not None
    assert flipped.tolist() == [False, True, True]
