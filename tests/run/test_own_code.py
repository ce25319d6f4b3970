"""What a run is made of beside its keys and its data."""

from __future__ import annotations

import torch
from torch import nn

from favano.run.own_code import digests_of
from favano.run.samples import Samples
from favano.training import FlatModel

EMPTY = torch.empty(0)
SAMPLES = Samples(EMPTY, EMPTY, EMPTY, EMPTY, 0)


class Scaled(nn.Linear):
    """A layer with a number of its own."""

    def __init__(self, scale: float) -> None:
        super().__init__(2, 2)
        self.scale = scale


def test_numbers_of_layers_belong_to_the_network() -> None:
    first, same, other = (
        digests_of(FlatModel(network, device="cpu"), torch.zeros(6), SAMPLES)
        for network in (Scaled(0.1), Scaled(0.1).eval(), Scaled(0.2))
    )
    assert first == same
    assert [name for name in first if first[name] != other[name]] == ["network"]


def test_constants_of_the_network_belong_to_the_initial_model() -> None:
    first, same, other = (digests_of(masked(k), torch.zeros(6), SAMPLES) for k in (0, 0, 1))
    assert first == same
    assert [name for name in first if first[name] != other[name]] == ["initial model"]


def masked(diagonal: int) -> FlatModel:
    network = nn.Linear(2, 2)
    network.register_buffer("mask", torch.full((2, 2), float("-inf")).triu(diagonal))
    return FlatModel(network, device="cpu")
