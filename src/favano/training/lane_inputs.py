"""Inputs of the lanes: the chosen samples; raw images are cropped, flipped and scaled."""

from __future__ import annotations

import torch
from torch import Tensor

from favano.data.transforms import ROOM, augment, byte_table, crops_of, to_float
from favano.training.device_draws import device_uniform
from favano.training.lane_network import has_kernels
from favano.training.roster import Roster
from favano.training.task import Task


class LaneInputs:
    """Makes the inputs of mini-batches, by a single kernel where there is one.

    Args:
        task: its samples, and how they are preprocessed.
        roster: the clients, whose crops are drawn.
        weights: of the network; raw images become floats of their type.
        half: floats are rounded to bf16 at last.
    """

    def __init__(self, task: Task, roster: Roster, weights: Tensor, *, half: bool) -> None:
        self._features, self._preprocessing = task.features, task.preprocessing
        self._origins, self._exact = roster.crops, weights.dtype
        self._rounded = torch.bfloat16 if half else weights.dtype
        self._in_one_kernel = has_kernels(weights) and _has_kernel(task)
        # Images stay bytes on the device, a quarter of the memory, and become floats in each step.
        self._table: Tensor | None = None  # what bytes become
        if self._in_one_kernel and task.preprocessing is not None:
            table = byte_table(task.preprocessing, task.features, weights.dtype)
            self._table = table.to(self._rounded)

    @property
    def read_as_they_are(self) -> bool:
        """Whether a kernel needs no more than the samples and their scaling."""
        drawn = self._preprocessing is not None and self._preprocessing.augments
        return self._in_one_kernel and not drawn

    def of(self, chosen: Tensor, rows: Tensor, steps: Tensor) -> Tensor:
        """Inputs of the chosen samples, (lanes, batch, ...); `rows` and `steps` are (lanes,)."""
        preprocessing = self._preprocessing
        if self._in_one_kernel:
            from favano.training.gpu_kernels import gather_inputs  # needs triton

            crops = None
            if preprocessing is not None and preprocessing.augments:
                crops = crops_of(preprocessing, self._draws(chosen, rows, steps))
            return gather_inputs(self._features, chosen, self._rounded, self._table, crops)
        features = self._features[chosen]
        if preprocessing is not None:
            if preprocessing.augments:
                features = augment(features, preprocessing, self._draws(chosen, rows, steps))
            features = to_float(features, preprocessing, self._exact)
        if self._rounded == self._exact or not features.is_floating_point():
            return features
        return features.to(self._rounded)

    def _draws(self, chosen: Tensor, rows: Tensor, steps: Tensor) -> Tensor:
        """Draws of crops and flips, (lanes, batch, 3)."""
        numbers = torch.arange(3 * chosen.shape[1], device=chosen.device)
        index = steps[:, None] * ROOM + numbers
        draws = device_uniform(self._origins[rows, None], index)
        return draws.float().view(*chosen.shape, 3)


def _has_kernel(task: Task) -> bool:
    features, preprocessing = task.features, task.preprocessing
    if not features.is_contiguous():
        return False
    if preprocessing is None:
        return features.dtype == torch.float32
    return features.dtype == torch.uint8 and features.ndim == 4 and not preprocessing.tokens
