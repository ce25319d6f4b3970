"""Weighted sums of models, many at once: rows of one table are made from other rows of it."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from favano.training.device_tables import TermTable

_NUMBERS, _TERMS = 256, 16  # of models, and models, that a program reads at once


@triton.jit(do_not_specialize=["begin"])
def _sums_kernel(
    models, owners, rows, firsts, terms, weights, segments, wrong, begin, size, apart,
    NUMBERS: tl.constexpr, TERMS: tl.constexpr,
):  # fmt: skip
    """Some numbers of all sums of a segment, one sum after the other."""
    place, term = tl.program_id(1) * NUMBERS + tl.arange(0, NUMBERS), tl.arange(0, TERMS)
    known, segment = place < size, begin + tl.program_id(0)
    for number in range(tl.load(segments + segment), tl.load(segments + segment + 1)):
        first, last = tl.load(firsts + number), tl.load(firsts + number + 1)
        total = tl.zeros((NUMBERS,), models.dtype.element_ty)
        for some in range(first, last, TERMS):
            there = some + term < last
            row = tl.load(terms + some + term, mask=there, other=0)
            weight = tl.load(weights + some + term, mask=there, other=0.0)
            read = there[:, None] & known[None, :]
            values = tl.load(models + row[:, None] * apart + place[None, :], mask=read, other=0.0)
            total += tl.sum(values * weight[:, None], 0)
        tl.store(models + tl.load(rows + number) * apart + place, total, mask=known)
        if tl.max((total - total != 0).to(tl.int32), 0) != 0:  # NaN or infinity
            tl.store(wrong + tl.load(owners + number), 1)
        tl.debug_barrier()  # threads read what others have written


def weighted_sums(models: Tensor, table: TermTable, first: int, last: int, wrong: Tensor) -> None:
    """Make the sums of segments first..last-1; mark the owners of sums that are not finite."""
    _sums_kernel[last - first, triton.cdiv(models.shape[1], _NUMBERS)](
        models, table.owner, table.row, table.first, table.terms, table.weights, table.segments,
        wrong, first, models.shape[1], models.stride(0), NUMBERS=_NUMBERS, TERMS=_TERMS,
    )  # fmt: skip
