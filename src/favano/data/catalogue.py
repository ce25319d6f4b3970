"""Data sets known by name: where they come from and how they are preprocessed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

from favano.data.preprocessing import Preprocessing

Mode: TypeAlias = Literal["L", "RGB"]  # Pillow's names for grey and colour


@dataclass(frozen=True)
class KnownDataset:
    """A data set of the Hugging Face hub.

    Args:
        hub: its repository.
        test_split: the split to test on, whose labels are public; None: a part of the samples of
            each client in `owner`.
        classes: number of classes.
        mode: every image is converted to it; TinyImageNet mixes grey and colour files. None: text.
        preprocessing: as in the paper.
        normalised: with mean 0 and standard deviation 1 per channel.
        owner: the column that says whose a sample is.
    """

    hub: str
    test_split: str | None
    classes: int
    mode: Mode | None
    preprocessing: Preprocessing
    normalised: Preprocessing
    owner: str = ""


DIGITS: Final = "digits"
DIGITS_PREPROCESSING: Final = Preprocessing(scale=16.0)
FOLDER_PREPROCESSING: Final = Preprocessing(scale=255.0)

_MNIST = Preprocessing(255.0, (0.1307,), (0.3081,))
_CIFAR10 = Preprocessing(
    255.0, (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010), crop_padding=4, flip=True
)
_TINY_IMAGENET = Preprocessing(255.0, (0.4802, 0.4481, 0.3975), (0.2302, 0.2265, 0.2262), flip=True)
_FEMNIST = Preprocessing(255.0, (0.9615,), (0.1642,))
_TOKENS = Preprocessing(1.0, tokens=True)

KNOWN: Final[dict[str, KnownDataset]] = {
    "mnist": KnownDataset(
        "ylecun/mnist", "test", 10, "L", Preprocessing(255.0), _MNIST, "writer_id"
    ),
    "cifar10": KnownDataset("uoft-cs/cifar10", "test", 10, "RGB", _CIFAR10, _CIFAR10),
    "tiny-imagenet": KnownDataset(
        "zh-plus/tiny-imagenet", "valid", 200, "RGB", _TINY_IMAGENET, _TINY_IMAGENET
    ),
    "femnist": KnownDataset(
        "flwrlabs/femnist", None, 62, "L", Preprocessing(255.0), _FEMNIST, "writer_id"
    ),
    "shakespeare": KnownDataset(
        "flwrlabs/shakespeare", None, 80, None, _TOKENS, _TOKENS, "character_id"
    ),
}


class Shape(NamedTuple):
    """Of the samples of a data set."""

    inputs: tuple[int, ...]
    classes: int


KNOWN_SHAPES: Final[dict[str, Shape]] = {
    DIGITS: Shape((1, 8, 8), 10),
    "mnist": Shape((1, 28, 28), 10),
    "cifar10": Shape((3, 32, 32), 10),
    "tiny-imagenet": Shape((3, 64, 64), 200),
    "femnist": Shape((1, 28, 28), 62),
    "shakespeare": Shape((80,), 80),
}

NAMES: Final = (DIGITS, *KNOWN)
