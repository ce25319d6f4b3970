"""Devices of recorded speeds: which of them is which client."""

from __future__ import annotations

import csv
from importlib.resources import files

import numpy as np

from favano.rng import Stream, bits
from favano.types import Floats, Ints

_DEVICE = 1  # place in a device's stream; 0 deals clients to groups


def phone_scores() -> Floats:
    """The floating-point scores of the phones in this package, fastest first."""
    text = (files("favano.timing") / "phones.csv").read_text(encoding="utf-8")
    scores = [float(row["cpu_float_score"]) for row in csv.DictReader(text.splitlines())]
    return np.array(scores)


def draw_devices(seed: int, clients: int, devices: int) -> Ints:
    """The device of each client: all different, as long as there are as many; then again.

    >>> sorted(draw_devices(0, 5, 3).tolist())
    [0, 1, 1, 2, 2]
    """
    order = np.argsort(bits(seed, Stream.SPEED, np.arange(devices), _DEVICE), kind="stable")
    repeated: Ints = np.tile(order, -(-clients // devices))[:clients]
    return repeated
