"""The clients of all tasks on the device: their samples and the origins of their draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from favano.data import BatchStream
from favano.rng import Stream, origin
from favano.training.device_draws import device_permutations, on_device
from favano.types import Ints


@dataclass(frozen=True, eq=False)
class Roster:
    """One row per client of each task."""

    first: Ints  # (tasks + 1,) first row of each task; on the host
    samples: Tensor  # (rows, longest) sample numbers, padded
    size: Tensor  # (rows,)
    batches: Tensor  # (rows,) batches per epoch
    orders: Tensor  # (rows,) origins of the epochs' orders
    crops: Tensor  # (rows,) origins of the augmentation
    keys: Tensor  # (rows,) origins of the keys for quantised gradients and dropout

    @property
    def longest(self) -> int:
        """The largest number of samples of a client."""
        return self.samples.shape[1]

    def shuffled(self, rows: Tensor, epoch: Tensor) -> Tensor:
        """The samples of these clients in the order of an epoch, (k, longest), padded."""
        order = device_permutations(self.orders[rows], epoch, self.size[rows], self.longest)
        return self.samples[rows].gather(1, order)


def make_roster(streams: Sequence[BatchStream], device: torch.device) -> Roster:
    """The clients of these tasks, which must have the order `epoch` and one batch size."""
    parts = [part for stream in streams for part in stream.parts]
    size = np.array([len(part) for part in parts])
    samples = np.zeros((len(parts), size.max()), dtype=np.int64)
    for row, part in enumerate(parts):
        samples[row, : len(part)] = part

    def origins(kind: Stream) -> Tensor:
        drawn = [
            origin(s.seed, kind, np.array([s.stream(client) for client in range(len(s.parts))]))
            for s in streams
        ]
        return on_device(np.concatenate(drawn), device)

    return Roster(
        first=np.cumsum([0, *(len(stream.parts) for stream in streams)]),
        samples=torch.from_numpy(samples).to(device),
        size=torch.from_numpy(size).to(device),
        batches=torch.from_numpy(-(-size // streams[0].batch_size)).to(device),
        orders=origins(Stream.BATCHES),
        crops=origins(Stream.AUGMENTATION),
        keys=origins(Stream.LUQ),
    )
