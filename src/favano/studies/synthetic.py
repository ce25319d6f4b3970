"""Synthetic images of a data set's shape, to measure speed without the data."""

from __future__ import annotations

import math

import torch

from favano.data.catalogue import KNOWN
from favano.data.transforms import to_float
from favano.run import samples as sources
from favano.run.samples import Samples
from favano.specification.spec import Spec

SYNTHETIC = {
    "mnist": (60_000, 1, 28, 28),
    "cifar10": (50_000, 3, 32, 32),
    "tiny-imagenet": (20_000, 3, 64, 64),
}
_BLOCK = 1000  # images that differ
_GOLDEN = (math.sqrt(5) - 1) / 2


def synthetic_samples(spec: Spec) -> Samples:
    """Images of the data set's shape, and labels in turn."""
    known, (rows, *shape) = KNOWN[spec.problem.dataset], SYNTHETIC[spec.problem.dataset]
    steps = known.normalised if spec.problem.normalise else known.preprocessing
    numbers = torch.arange(_BLOCK * math.prod(shape), dtype=torch.float64)
    pixels = (numbers * _GOLDEN).frac().mul(256).to(torch.uint8).view(_BLOCK, *shape)
    raw = pixels.repeat(rows // _BLOCK, 1, 1, 1).to(sources.check_device(spec.run.device))
    labels = torch.arange(rows, device=raw.device) % known.classes
    (features, later), test = sources.kept(raw, steps), to_float(raw[:1], steps)
    return Samples(features, labels, test, labels[:1], known.classes, later)
