"""Linear layers of many lanes. They are limited by memory: each row is read and written once.

A batched product of a library would need further passes for the biases and for their gradients.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from favano.training.gpu_kernels.blocks import products_of, tile, triton_precision

_ROWS = 128  # of a program
_MOST_COLUMNS = 64
_MOST_DEPTH = 64  # inputs at once


@triton.jit(do_not_specialize=["rows"])
def _product_kernel(
    inputs, weights, bias, out, sums, rows, inputs_apart, weights_apart, bias_apart,
    INPUTS: tl.constexpr, OUTPUTS: tl.constexpr, TURNED: tl.constexpr, WITH_BIAS: tl.constexpr,
    WITH_SUMS: tl.constexpr, PRECISION: tl.constexpr,
    ROWS: tl.constexpr, DEPTH: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """out = inputs weights' + bias, or with `TURNED` inputs weights, for some rows of a lane.

    With `WITH_SUMS` also the sum of each column of these rows of the inputs. Lanes are so many
    numbers apart as the arguments say.
    """
    lane, part = tl.program_id(2).to(tl.int64), tl.program_id(1)
    row = part * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    inputs += lane * inputs_apart
    weights += lane * weights_apart
    sums += (lane * tl.num_programs(1) + part) * INPUTS
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for start in range(0, INPUTS, DEPTH):
        place = start + tl.arange(0, DEPTH)
        known = (row < rows)[:, None] & (place < INPUTS)[None, :]
        factor = tl.load(inputs + row[:, None] * INPUTS + place[None, :], mask=known, other=0.0)
        if WITH_SUMS:  # noqa: SIM102 (decided when the kernel is compiled)
            if tl.program_id(0) == 0:
                tl.store(sums + place, tl.sum(factor.to(tl.float32), 0), mask=place < INPUTS)
        if TURNED:
            known = (place < INPUTS)[:, None] & (column < OUTPUTS)[None, :]
            at = weights + place[:, None] * OUTPUTS + column[None, :]
            weight = tl.load(at, mask=known, other=0.0)
        else:
            known = (column < OUTPUTS)[:, None] & (place < INPUTS)[None, :]
            at = weights + column[:, None] * INPUTS + place[None, :]
            weight = tl.trans(tl.load(at, mask=known, other=0.0))
        total = tl.dot(factor, weight, total, input_precision=PRECISION)
    if WITH_BIAS:
        added = tl.load(bias + lane * bias_apart + column, mask=column < OUTPUTS, other=0.0)
        total += added[None, :].to(tl.float32)
    known = (row < rows)[:, None] & (column < OUTPUTS)[None, :]
    out += lane * rows * OUTPUTS + row[:, None] * OUTPUTS + column[None, :]
    tl.store(out, total.to(out.dtype.element_ty), mask=known)


def _product(
    inputs: Tensor, weights: Tensor, bias: Tensor | None, *, turned: bool, with_sums: bool = False
) -> tuple[Tensor, Tensor | None]:
    """Rows (L, M, K) times weights (L, N, K)', or (L, K, N), and sums of columns of the rows."""
    lanes, rows, depth = inputs.shape
    columns = weights.shape[2 if turned else 1]
    width, parts = tile(columns, _MOST_COLUMNS), triton.cdiv(rows, _ROWS)
    out = inputs.new_empty((lanes, rows, columns))
    sums = inputs.new_empty((lanes, parts, depth) if with_sums else 0, dtype=torch.float32)
    _product_kernel[triton.cdiv(columns, width), parts, lanes](
        inputs, weights, out if bias is None else bias, out, sums, rows,
        inputs.stride(0), weights.stride(0), 0 if bias is None else bias.stride(0),
        INPUTS=depth, OUTPUTS=columns, TURNED=turned, WITH_BIAS=bias is not None,
        WITH_SUMS=with_sums, PRECISION=triton_precision(products_of(inputs)),
        ROWS=_ROWS, DEPTH=tile(depth, _MOST_DEPTH), COLUMNS=width, num_warps=4, num_stages=2,
    )  # fmt: skip
    return out, sums.sum(1) if with_sums else None


def forward(rows: Tensor, weights: Tensor, bias: Tensor | None) -> Tensor:
    """Rows (L, M, K) times weights (L, N, K)' plus biases (L, N)."""
    return _product(rows, _dense(weights), bias if bias is None else _dense(bias), turned=False)[0]


def backward(
    gradient: Tensor, rows: Tensor, weights: Tensor, needed: tuple[bool, bool, bool]
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Those gradients of rows, weights and biases that are needed, from (L, M, N)."""
    to_rows = to_weights = to_bias = None
    if needed[0]:
        to_rows, to_bias = _product(
            gradient, _dense(weights), None, turned=True, with_sums=needed[2]
        )
    elif needed[2]:
        to_bias = gradient.sum(1, dtype=torch.float32)
    if needed[1]:
        to_weights = torch.bmm(gradient.mT, rows)
    return to_rows, to_weights, None if to_bias is None else to_bias.to(weights.dtype)


def _dense(tensor: Tensor) -> Tensor:
    """Each lane contiguous; copied only if necessary."""
    return tensor if tensor[0].is_contiguous() else tensor.contiguous()
