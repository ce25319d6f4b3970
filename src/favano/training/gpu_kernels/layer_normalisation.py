"""Layer normalisation of many lanes: a program keeps whole rows, and reads them once."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

WIDEST = 4096  # numbers of a row
_NUMBERS = 2048  # that a program handles at once
_BLOCKS = 4  # of rows, that a program of the gradient adds up


@triton.jit
def _normalised(inputs, row, column, rows, epsilon, WIDTH: tl.constexpr):
    """Rows without mean and deviation, 1 / deviation, where they lie, and which numbers exist."""
    known = (row < rows)[:, None] & (column < WIDTH)[None, :]
    at = row[:, None] * WIDTH + column[None, :]
    values = tl.load(inputs + at, mask=known, other=0.0).to(tl.float32)
    apart = tl.where(known, values - (tl.sum(values, 1) / WIDTH)[:, None], 0.0)
    inverse = 1.0 / tl.sqrt(tl.sum(apart * apart, 1) / WIDTH + epsilon)
    return apart * inverse[:, None], inverse, at, known


@triton.jit(do_not_specialize=["rows"])
def _layer_kernel(
    inputs, weight, bias, out, rows, inputs_apart, weight_apart, bias_apart, epsilon,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
    WITH_WEIGHT: tl.constexpr, WITH_BIAS: tl.constexpr,
):  # fmt: skip
    lane, column = tl.program_id(1).to(tl.int64), tl.arange(0, BLOCK)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    result, _, at, known = _normalised(
        inputs + lane * inputs_apart, row, column, rows, epsilon, WIDTH
    )
    if WITH_WEIGHT:
        scale = tl.load(weight + lane * weight_apart + column, mask=column < WIDTH, other=0.0)
        result *= scale[None, :].to(tl.float32)
    if WITH_BIAS:
        offset = tl.load(bias + lane * bias_apart + column, mask=column < WIDTH, other=0.0)
        result += offset[None, :].to(tl.float32)
    tl.store(out + lane * rows * WIDTH + at, result.to(out.dtype.element_ty), mask=known)


@triton.jit(do_not_specialize=["rows"])
def _layer_gradient_kernel(
    gradient, inputs, weight, to_inputs, sums, rows,
    gradient_apart, inputs_apart, weight_apart, epsilon,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr, BLOCKS: tl.constexpr,
    WITH_WEIGHT: tl.constexpr,
):  # fmt: skip
    """Gradients of weight and bias are those of `BLOCKS` times `ROWS` rows."""
    part, lane = tl.program_id(0), tl.program_id(1).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inputs += lane * inputs_apart
    gradient += lane * gradient_apart
    to_inputs += lane * rows * WIDTH
    scale = tl.full((BLOCK,), 1.0, tl.float32)
    if WITH_WEIGHT:
        scale = tl.load(weight + lane * weight_apart + column, mask=column < WIDTH, other=0.0)
        scale = scale.to(tl.float32)
    to_weight = tl.zeros((BLOCK,), dtype=tl.float32)
    to_bias = tl.zeros((BLOCK,), dtype=tl.float32)
    for block in range(BLOCKS):
        row = (part * BLOCKS + block) * ROWS + tl.arange(0, ROWS)
        normal, inverse, at, known = _normalised(inputs, row, column, rows, epsilon, WIDTH)
        incoming = tl.load(gradient + at, mask=known, other=0.0).to(tl.float32)
        to_weight += tl.sum(incoming * normal, 0)
        to_bias += tl.sum(incoming, 0)
        slope = incoming * scale[None, :]
        mean = tl.sum(slope, 1) / WIDTH
        along = tl.sum(slope * normal, 1) / WIDTH
        result = (slope - mean[:, None] - normal * along[:, None]) * inverse[:, None]
        tl.store(to_inputs + at, result.to(to_inputs.dtype.element_ty), mask=known)
    sums += (lane * tl.num_programs(0) + part) * 2 * WIDTH + column
    tl.store(sums, to_weight, mask=column < WIDTH)
    tl.store(sums + WIDTH, to_bias, mask=column < WIDTH)


def _constants(width: int) -> dict[str, int]:
    """Constants of both kernels."""
    block = int(triton.next_power_of_2(width))
    return {"WIDTH": width, "BLOCK": block, "ROWS": max(1, _NUMBERS // block), "num_warps": 4}


def forward(
    rows: Tensor, weight: Tensor | None, bias: Tensor | None, out: Tensor, epsilon: float
) -> None:
    """Normalise rows (L, M, E), with weights and biases (L, E) or without, into `out`."""
    lanes, count, width = rows.shape
    how = _constants(width)
    weight, bias = _dense(weight), _dense(bias)
    _layer_kernel[triton.cdiv(count, how["ROWS"]), lanes](
        rows, rows if weight is None else weight, rows if bias is None else bias, out, count,
        rows.stride(0), _apart(weight), _apart(bias), epsilon,
        WITH_WEIGHT=weight is not None, WITH_BIAS=bias is not None, **how,
    )  # fmt: skip


def backward(
    gradient: Tensor, rows: Tensor, weight: Tensor | None, to_rows: Tensor, epsilon: float
) -> tuple[Tensor, ...]:
    """Gradients of weight and bias, in float32; that of rows into `to_rows`."""
    lanes, count, width = rows.shape
    how = _constants(width)
    weight, parts = _dense(weight), triton.cdiv(count, _BLOCKS * how["ROWS"])
    sums = rows.new_empty((lanes, parts, 2, width), dtype=torch.float32)
    _layer_gradient_kernel[parts, lanes](
        gradient, rows, rows if weight is None else weight, to_rows, sums, count,
        gradient.stride(0), rows.stride(0), _apart(weight), epsilon,
        WITH_WEIGHT=weight is not None, BLOCKS=_BLOCKS, **how,
    )  # fmt: skip
    return sums.sum(1).unbind(1)


def _dense(tensor: Tensor | None) -> Tensor | None:
    """Each lane contiguous; copied only if necessary."""
    return tensor if tensor is None or tensor[0].is_contiguous() else tensor.contiguous()


def _apart(tensor: Tensor | None) -> int:
    """How many numbers two lanes are apart."""
    return 0 if tensor is None else tensor.stride(0)
