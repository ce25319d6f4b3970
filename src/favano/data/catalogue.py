"""Data sets known by name: where they come from and how the paper preprocesses them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from favano.data.preprocessing import Preprocessing

Mode: TypeAlias = Literal["L", "RGB"]  # Pillow's names for grey and colour


@dataclass(frozen=True)
class Known:
    """A data set of the Hugging Face hub.

    Args:
        hub: its repository.
        test_split: the split to test on; its labels are public.
        classes: number of classes.
        mode: every image is converted to it; TinyImageNet mixes grey and colour files.
        preprocessing: as in the paper.
        normalised: with mean 0 and standard deviation 1 per channel.
    """

    hub: str
    test_split: str
    classes: int
    mode: Mode
    preprocessing: Preprocessing
    normalised: Preprocessing


DIGITS: Final = "digits"
DIGITS_PREPROCESSING: Final = Preprocessing(scale=16.0)
FOLDER_PREPROCESSING: Final = Preprocessing(scale=255.0)

_MNIST = Preprocessing(255.0, (0.1307,), (0.3081,))
_CIFAR10 = Preprocessing(
    255.0, (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010), crop_padding=4, flip=True
)
_TINY_IMAGENET = Preprocessing(255.0, (0.4802, 0.4481, 0.3975), (0.2302, 0.2265, 0.2262), flip=True)

KNOWN: Final[dict[str, Known]] = {
    "mnist": Known("ylecun/mnist", "test", 10, "L", Preprocessing(255.0), _MNIST),
    "cifar10": Known("uoft-cs/cifar10", "test", 10, "RGB", _CIFAR10, _CIFAR10),
    "tiny-imagenet": Known(
        "zh-plus/tiny-imagenet", "valid", 200, "RGB", _TINY_IMAGENET, _TINY_IMAGENET
    ),
}

NAMES: Final = (DIGITS, *KNOWN)
