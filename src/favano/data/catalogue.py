"""The data sets known by name: where they come from and how the paper preprocesses them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from favano.data.preprocessing import Preprocessing

Mode: TypeAlias = Literal["L", "RGB"]  # Pillow's words for grey and colour


@dataclass(frozen=True)
class Known:
    """A data set of the Hugging Face hub.

    Args:
        hub: its repository there.
        test_split: the split whose labels are public and which is not trained on.
        classes: number of labels.
        mode: what every image is converted to; TinyImageNet has grey files among the colour ones.
        preprocessing: the paper's.
        normalised: the variant with mean and standard deviation taken out.
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

_CIFAR10 = Preprocessing(
    scale=255.0,
    mean=(0.4914, 0.4822, 0.4465),
    std=(0.2023, 0.1994, 0.2010),
    crop_padding=4,
    flip=True,
)
_TINY_IMAGENET = Preprocessing(
    scale=255.0,
    mean=(0.4802, 0.4481, 0.3975),
    std=(0.2302, 0.2265, 0.2262),
    flip=True,
)

KNOWN: Final[dict[str, Known]] = {
    "mnist": Known(
        hub="ylecun/mnist",
        test_split="test",
        classes=10,
        mode="L",
        preprocessing=Preprocessing(scale=255.0),
        normalised=Preprocessing(scale=255.0, mean=(0.1307,), std=(0.3081,)),
    ),
    "cifar10": Known(
        hub="uoft-cs/cifar10",
        test_split="test",
        classes=10,
        mode="RGB",
        preprocessing=_CIFAR10,
        normalised=_CIFAR10,
    ),
    "tiny-imagenet": Known(
        hub="zh-plus/tiny-imagenet",
        test_split="valid",
        classes=200,
        mode="RGB",
        preprocessing=_TINY_IMAGENET,
        normalised=_TINY_IMAGENET,
    ),
}

NAMES: Final = (DIGITS, *KNOWN)
