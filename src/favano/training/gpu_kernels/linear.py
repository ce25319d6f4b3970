"""Linear layers of many lanes. They are limited by memory: each row is read and written once.

A batched product of a library would need further passes for the biases and for their gradients.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from favano.training.gpu_kernels.blocks import products_of, tile, triton_precision

# Of a program, measured on an H200: rows, inputs at once, and outputs, with whole tiles of many.
_ROWS, _DEPTH = 128, 32
_COLUMNS, _MANY_COLUMNS = 64, 128


@triton.jit(do_not_specialize=["rows"])
def _product_kernel(
    inputs, weights, bias, out, sums, rows, inputs_apart, weights_apart, bias_apart,
    INPUTS: tl.constexpr, OUTPUTS: tl.constexpr, WITH_BIAS: tl.constexpr, WITH_SUMS: tl.constexpr,
    PRECISION: tl.constexpr, ROWS: tl.constexpr, DEPTH: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """out = inputs weights' + bias, for some rows of a lane.

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
    inputs: Tensor, weights: Tensor, bias: Tensor | None, out: Tensor, *, with_sums: bool = False
) -> Tensor | None:
    """Rows (L, M, K) times weights (L, N, K)' into `out`; returns sums of the rows' columns."""
    lanes, rows, depth = inputs.shape
    columns, parts = weights.shape[1], triton.cdiv(rows, _ROWS)
    width = tile(columns, _COLUMNS) if columns % _MANY_COLUMNS else _MANY_COLUMNS
    sums = inputs.new_empty((lanes, parts, depth) if with_sums else 0, dtype=torch.float32)
    _product_kernel[triton.cdiv(columns, width), parts, lanes](
        inputs, weights, out if bias is None else bias, out, sums, rows,
        inputs.stride(0), weights.stride(0), 0 if bias is None else bias.stride(0),
        INPUTS=depth, OUTPUTS=columns, WITH_BIAS=bias is not None, WITH_SUMS=with_sums,
        PRECISION=triton_precision(products_of(inputs)), ROWS=_ROWS, DEPTH=tile(depth, _DEPTH),
        COLUMNS=width, num_warps=4, num_stages=3,
    )  # fmt: skip
    return sums.sum(1) if with_sums else None


def forward(rows: Tensor, weights: Tensor, bias: Tensor | None, out: Tensor) -> None:
    """Rows (L, M, K) times weights (L, N, K)' plus biases (L, N), into `out`, (L, M, N)."""
    _product(rows, _dense(weights), bias if bias is None else _dense(bias), out)


def backward(
    gradient: Tensor, rows: Tensor, weights: Tensor, to_rows: Tensor | None,
    with_weights: bool, with_bias: bool,
) -> tuple[Tensor | None, Tensor | None]:  # fmt: skip
    """Gradients of weights and biases, if wanted, from (L, M, N); that of rows into `to_rows`."""
    to_bias = None
    if to_rows is not None:
        # Tensor cores take TF32 weights in one order only: a copy of them is faster.
        turned = weights.mT.contiguous()
        to_bias = _product(gradient, turned, None, to_rows, with_sums=with_bias)
    elif with_bias:
        to_bias = gradient.sum(1, dtype=torch.float32)
    to_weights = torch.bmm(gradient.mT, rows) if with_weights else None
    return to_weights, None if to_bias is None else to_bias.to(weights.dtype)


def _dense(tensor: Tensor) -> Tensor:
    """Each lane contiguous; copied only if necessary."""
    return tensor if tensor[0].is_contiguous() else tensor.contiguous()
