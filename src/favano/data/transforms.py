"""Raw pixels to model inputs: random crop and flip of raw values, then scaling to floats.

Tensors may have any number of leading dimensions, so one call serves many lanes. Nothing is copied
from host to device, so calls can be captured in a CUDA graph.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from favano.data.preprocessing import Preprocessing
from favano.errors import require
from favano.rng import Stream, uniform
from favano.types import Floats

_DRAWS = 3  # per image: vertical position, horizontal position, flip
ROOM = 1 << 24  # draws reserved for one step in a client's stream


class Crops(NamedTuple):
    """Which part of each image is taken. Outside of an image there are zeros."""

    begins: Tensor  # (..., B, 2) first row and column, negative in the border
    flipped: Tensor | None  # (..., B); None if no image is


def to_float(
    images: Tensor, preprocessing: Preprocessing, dtype: torch.dtype = torch.float32
) -> Tensor:
    """`(x / scale - mean) / std` per channel of raw images (..., C, H, W); tokens as they are."""
    if preprocessing.tokens:
        return images
    scaled = images.to(dtype) / preprocessing.scale
    if not preprocessing.mean:
        return scaled
    mean = _per_channel(preprocessing.mean, scaled)
    return (scaled - mean) / _per_channel(preprocessing.std, scaled)


def byte_table(preprocessing: Preprocessing, images: Tensor, dtype: torch.dtype) -> Tensor:
    """The inputs that bytes become, (C, 256), for images (N, C, H, W).

    Scaling by a table has the bits of `to_float`, since the table is made by it.
    """
    every = torch.arange(256, device=images.device, dtype=torch.uint8)
    raw = every.expand(images.shape[1], 1, 256)
    return to_float(raw, preprocessing, dtype).reshape(images.shape[1], 256)


def augment(images: Tensor, preprocessing: Preprocessing, draws: Tensor) -> Tensor:
    """Random crop of the zero-padded raw image, then random flip; same shape and type.

    Raw pixels are padded, before normalisation, as in torchvision.

    Args:
        images: raw, (..., B, C, H, W).
        preprocessing: says how much padding, and whether to flip.
        draws: uniform numbers, (..., B, 3), for vertical position, horizontal position and flip.
    """
    if not preprocessing.augments:
        return images
    padding = preprocessing.crop_padding
    height, width = images.shape[-2:]
    padded = functional.pad(images, (padding, padding, padding, padding))
    begins, flipped = crops_of(preprocessing, draws)
    rows = begins[..., :1] + torch.arange(padding, height + padding, device=images.device)
    columns = begins[..., 1:] + torch.arange(padding, width + padding, device=images.device)
    if flipped is not None:
        columns = torch.where(flipped[..., None], columns.flip(-1), columns)  # (..., B, W)
    places = rows[..., :, None] * padded.shape[-1] + columns[..., None, :]  # (..., B, H, W)
    places = places.flatten(-2)[..., None, :]  # (..., B, 1, H W)
    picked = padded.flatten(-2).gather(-1, places.expand(*images.shape[:-2], -1))
    return picked.reshape(images.shape)


def crops_of(preprocessing: Preprocessing, draws: Tensor) -> Crops:
    """The crops and flips of `augment`, given its draws, (..., B, 3)."""
    padding = preprocessing.crop_padding
    begins = (draws[..., :2] * (2 * padding + 1)).long().clamp(max=2 * padding) - padding
    return Crops(begins, draws[..., 2] < 0.5 if preprocessing.flip else None)


def augmentation_draws(
    seed: int, client_stream: npt.ArrayLike, step: npt.ArrayLike, batch: int
) -> Floats:
    """Uniform numbers for `augment`, (..., batch, 3), as a function of (seed, client, step).

    `client_stream` and `step` may be arrays of the same shape, with one entry per lane.
    """
    require(1 <= batch <= ROOM // _DRAWS, "batch", batch, f"need 1..{ROOM // _DRAWS}")
    client = np.asarray(client_stream)[..., None]
    first = np.asarray(step, dtype=np.int64)[..., None] * ROOM
    drawn = uniform(seed, Stream.AUGMENTATION, client, first + np.arange(batch * _DRAWS))
    return drawn.reshape(*drawn.shape[:-1], batch, _DRAWS)


def _per_channel(values: tuple[float, ...], like: Tensor) -> Tensor:
    """One number per channel as a (C, 1, 1) tensor, filled on the device."""
    return torch.cat([like.new_full((1, 1, 1), value) for value in values])
