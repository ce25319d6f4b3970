"""How raw pixels become inputs of a model, as plain data."""

from __future__ import annotations

from dataclasses import dataclass

from favano.errors import require


@dataclass(frozen=True)
class Preprocessing:
    """Pixels become `(x / scale - mean) / std` per channel, after random crop and flip in training.

    Args:
        scale: the largest raw value, 255 for images of 8 bits.
        mean: one number per channel, or empty.
        std: as many numbers as `mean`.
        crop_padding: width of the border of zeros before a random crop to the original size.
        flip: mirror left and right with probability one half.
        tokens: inputs are not pixels but whole numbers, which the model takes as they are.

    >>> Preprocessing(scale=255.0).augments
    False
    """

    scale: float
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    crop_padding: int = 0
    flip: bool = False
    tokens: bool = False

    def __post_init__(self) -> None:
        require(self.scale > 0, "scale", self.scale, "need a number > 0")
        require(len(self.std) == len(self.mean), "std", self.std, f"need {len(self.mean)} numbers")
        require(all(value > 0 for value in self.std), "std", self.std, "need numbers > 0")
        require(self.crop_padding >= 0, "crop_padding", self.crop_padding, "need 0 or more")

    @property
    def augments(self) -> bool:
        """Whether training images are changed at random."""
        return self.flip or self.crop_padding > 0
