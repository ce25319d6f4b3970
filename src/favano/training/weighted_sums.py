"""Weighted sums of rows of a table of models."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from favano.training.device_tables import TermTable
from favano.training.lane_network import has_kernels
from favano.types import Stack


def sum_rows(models: Stack, table: TermTable, first: int, last: int, wrong: Tensor) -> None:
    """Make the sums of segments first..last-1; mark the owners of sums that are not finite."""
    if first == last:
        return
    if has_kernels(models):
        from favano.training.gpu_kernels import weighted_sums  # needs triton

        weighted_sums(models, table, first, last, wrong)
        return
    begin, end = table.segments[[first, last]].tolist()
    places = table.first[begin : end + 1].tolist()
    for number, (one, next_one) in enumerate(pairwise(places), begin):
        rows, weights = table.terms[one:next_one], table.weights[one:next_one]
        total = (weights[:, None] * models[rows]).sum(0)
        models[table.row[number]] = total
        wrong[table.owner[number]] |= ~torch.isfinite(total).all()
