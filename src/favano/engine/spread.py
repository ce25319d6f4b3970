"""How far the clients' models are from the server's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from favano.training import to_device
from favano.types import Ints, Stack, Vector


class Spread(NamedTuple):
    """How far the clients' start models are from the server model and from the mean of all."""

    distances: Tensor  # (2,) variance and potential
    mean: Vector  # mu = (w + sum_i w_i) / (n + 1)

    @property
    def variance(self) -> float:
        """sum_i ||w_i - w||^2."""
        return float(self.distances[0])

    @property
    def potential(self) -> float:
        """||w - mu||^2 + sum_i ||w_i - mu||^2."""
        return float(self.distances[1])


def spread(models: Iterable[tuple[Stack, Ints]], server: Vector, parameters: int) -> Spread:
    """Of models, given in parts, each held by so many clients.

    Distances over the first `parameters` entries; the mean over all of them.
    """
    reference = server.double()
    total, squares = torch.zeros_like(reference), reference.new_zeros(())
    clients = 0
    for part, holders in models:
        count = to_device(holders, reference).to(reference.dtype)
        distance = part.double() - reference
        squares += count @ distance[:, :parameters].square().sum(dim=1)
        total += count @ distance
        clients += int(holders.sum())
    shift = total / (clients + 1)
    excess = total[:parameters] @ shift[:parameters]
    distances = torch.stack([squares, squares - excess]).clamp(min=0)
    return Spread(distances, (reference + shift).to(server.dtype))
