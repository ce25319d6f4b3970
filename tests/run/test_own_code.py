"""What a run is made of beside its keys and its data."""

from __future__ import annotations

import torch
from torch import nn

from favano.run.own_code import digests_of
from favano.run.samples import Samples

EMPTY = torch.empty(0)
SAMPLES = Samples(EMPTY, EMPTY, EMPTY, EMPTY, 0)


class Scaled(nn.Linear):
    """A layer with a number of its own."""

    def __init__(self, scale: float) -> None:
        super().__init__(2, 2)
        self.scale = scale


def test_numbers_of_layers_belong_to_the_network() -> None:
    one, same, other = (
        digests_of(network, torch.zeros(6), SAMPLES)
        for network in (Scaled(0.1), Scaled(0.1).eval(), Scaled(0.2))
    )
    assert one == same
    assert [name for name in one if one[name] != other[name]] == ["network"]
