"""Pixels of images from 0 to 1, whatever kind of image they are in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from PIL.Image import Image

# By Pillow's names of the kinds. A palette's numbers are places in a list of colours. "I" and "F",
# numbers of 32 bits, do not say which of them is white, and are not here.
_WHITE: Final = {
    "1": 1,
    **dict.fromkeys(("L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr"), 255),
    **dict.fromkeys(("I;16", "I;16L", "I;16B"), 65535),
}
_COLOURS: Final = {"P": "RGB", "PA": "RGBA"}


def white_of(image: Image) -> int | None:
    """The largest number that a pixel can have; None if the kind of image does not say it."""
    return _WHITE.get(image.mode)


def unit_pixels(image: Image, white: int) -> npt.NDArray[np.float32]:
    """Pixels from 0 to 1, (C, H, W), in the colours that the image has."""
    colours = _COLOURS.get(image.mode)
    values = np.asarray(image if colours is None else image.convert(colours))
    channels = values[None] if values.ndim == 2 else np.moveaxis(values, -1, 0)
    return channels.astype(np.float32) / np.float32(white)
