"""Attention of short sequences, for many lanes: a program has all keys and values of one head.

    weights = softmax(scale query key' + mask),   out = (weights kept / (1 - p)) value

Scores and weights stay in registers, and are computed again for the gradient. Which weights are
kept is a function of the key of a step, as in `favano.quantisation.noise`.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import torch
import triton
import triton.language as tl
from torch import Tensor

from favano.training.gpu_kernels.blocks import products_of, tile, triton_precision
from favano.training.gpu_kernels.quantisers import uniform_noise

_LONGEST, _WIDEST = 128, 64  # keys, and numbers of a head
_SMALL = 32  # most of both without tensor cores: there are not enough registers
# Measured on an H200: scores that a program has at once, and scores or numbers of keys per warp.
_SCORES, _GRADIENT_SCORES = 4096, 2048
_OF_WARP, _MOST_WARPS = 1024, 4

Heads: TypeAlias = tuple[Tensor, Tensor, Tensor]  # queries (L, B, H, S, D), keys and values


class Pattern(NamedTuple):
    """Which keys a query sees, and with what weight.

    `mask`, (L, B, H, S, T), is False for keys that are not seen, or is added to the scores.
    """

    scale: float
    mask: Tensor | None = None
    causal: bool = False
    drop: float = 0.0  # the probability of dropout
    step_keys: Tensor | None = None  # for dropout, (L,)
    draw: int = 0  # the place of its draws within the step


def fits(query: Tensor, keys: int, size: int) -> bool:
    """Whether the kernels are made for so many keys and numbers of a head."""
    if products_of(query) == "float32":
        return max(keys, size) <= _SMALL
    return keys <= _LONGEST and size <= _WIDEST


@triton.jit
def _head(values, strides, lane, batch, head):
    return values + lane * strides[0] + batch * strides[1] + head * strides[2]


@triton.jit
def _load(values, strides, row, count, column, SIZE: tl.constexpr):
    known = (row < count)[:, None] & (column < SIZE)[None, :]
    at = row[:, None] * strides[3] + column[None, :] * strides[4]
    return tl.load(values + at, mask=known, other=0.0)


@triton.jit
def _store(values, strides, row, count, column, result, SIZE: tl.constexpr):
    known = (row < count)[:, None] & (column < SIZE)[None, :]
    at = row[:, None] * strides[3] + column[None, :] * strides[4]
    tl.store(values + at, result.to(values.dtype.element_ty), mask=known)


@triton.jit
def _softmax(
    query, key, mask, mask_strides, row, place, queries, keys, scale,
    MASK: tl.constexpr, CAUSAL: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Weights of some queries; zeros for a query that sees no key."""
    scores = tl.dot(query, tl.trans(key), input_precision=PRECISION) * scale
    known = (row < queries)[:, None] & (place < keys)[None, :]
    at = row[:, None] * mask_strides[3] + place[None, :] * mask_strides[4]
    if MASK == "bool":
        known = known & (tl.load(mask + at, mask=known, other=0) != 0)
    elif MASK == "float":
        scores += tl.load(mask + at, mask=known, other=0.0).to(tl.float32)
    if CAUSAL:
        known = known & (place[None, :] <= row[:, None])
    scores = tl.where(known, scores, float("-inf"))
    largest = tl.max(scores, 1)
    largest = tl.where(largest == float("-inf"), 0.0, largest)
    weights = tl.exp(scores - largest[:, None])
    total = tl.sum(weights, 1)
    return weights / tl.where(total == 0.0, 1.0, total)[:, None]


@triton.jit
def _kept(step_keys, lane, draw, row, place, queries, keys, drop):
    """Which weights dropout keeps."""
    number = (tl.program_id(0) * queries + row[:, None]) * keys + place[None, :]
    return uniform_noise(tl.load(step_keys + lane), draw, number) >= drop


@triton.jit(do_not_specialize=["draw"])
def _attention_kernel(
    query, key, value, mask, step_keys, out,
    query_strides, key_strides, value_strides, mask_strides, out_strides,
    scale, draw, drop, kept_scale,
    HEADS: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr, SIZE: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr,
    MASK: tl.constexpr, CAUSAL: tl.constexpr, DROP: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    lane = tl.program_id(1).to(tl.int64)
    batch, head = (tl.program_id(0) // HEADS).to(tl.int64), tl.program_id(0) % HEADS
    query = _head(query, query_strides, lane, batch, head)
    mask = _head(mask, mask_strides, lane, batch, head)
    out = _head(out, out_strides, lane, batch, head)
    column, place = tl.arange(0, WIDTH), tl.arange(0, BLOCK)
    key = _load(_head(key, key_strides, lane, batch, head), key_strides, place, KEYS, column, SIZE)
    value = _head(value, value_strides, lane, batch, head)
    value = _load(value, value_strides, place, KEYS, column, SIZE)
    for first in range(0, QUERIES, ROWS):
        row = first + tl.arange(0, ROWS)
        some = _load(query, query_strides, row, QUERIES, column, SIZE)
        weights = _softmax(
            some, key, mask, mask_strides, row, place, QUERIES, KEYS, scale,
            MASK, CAUSAL, PRECISION,
        )  # fmt: skip
        if DROP:
            kept = _kept(step_keys, lane, draw, row, place, QUERIES, KEYS, drop)
            weights = tl.where(kept, weights * kept_scale, 0.0)
        result = tl.dot(weights.to(value.dtype), value, input_precision=PRECISION)
        _store(out, out_strides, row, QUERIES, column, result, SIZE)


@triton.jit(do_not_specialize=["draw"])
def _attention_gradient_kernel(
    gradient, query, key, value, mask, step_keys, to_query, to_key, to_value, to_mask,
    gradient_strides, query_strides, key_strides, value_strides, mask_strides,
    to_query_strides, to_key_strides, to_value_strides, to_mask_strides,
    scale, draw, drop, kept_scale,
    HEADS: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr, SIZE: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr,
    MASK: tl.constexpr, CAUSAL: tl.constexpr, DROP: tl.constexpr, PRECISION: tl.constexpr,
    TO_MASK: tl.constexpr,
):  # fmt: skip
    lane = tl.program_id(1).to(tl.int64)
    batch, head = (tl.program_id(0) // HEADS).to(tl.int64), tl.program_id(0) % HEADS
    gradient = _head(gradient, gradient_strides, lane, batch, head)
    query = _head(query, query_strides, lane, batch, head)
    mask = _head(mask, mask_strides, lane, batch, head)
    to_query = _head(to_query, to_query_strides, lane, batch, head)
    column, place = tl.arange(0, WIDTH), tl.arange(0, BLOCK)
    key = _load(_head(key, key_strides, lane, batch, head), key_strides, place, KEYS, column, SIZE)
    value = _head(value, value_strides, lane, batch, head)
    value = _load(value, value_strides, place, KEYS, column, SIZE)
    key_slope = tl.zeros((BLOCK, WIDTH), dtype=tl.float32)
    value_slope = tl.zeros((BLOCK, WIDTH), dtype=tl.float32)
    for first in range(0, QUERIES, ROWS):
        row = first + tl.arange(0, ROWS)
        some = _load(query, query_strides, row, QUERIES, column, SIZE)
        incoming = _load(gradient, gradient_strides, row, QUERIES, column, SIZE)
        weights = _softmax(
            some, key, mask, mask_strides, row, place, QUERIES, KEYS, scale,
            MASK, CAUSAL, PRECISION,
        )  # fmt: skip
        slope = tl.dot(incoming, tl.trans(value), input_precision=PRECISION)
        used = weights
        if DROP:
            kept = _kept(step_keys, lane, draw, row, place, QUERIES, KEYS, drop)
            used = tl.where(kept, weights * kept_scale, 0.0)
            slope = tl.where(kept, slope * kept_scale, 0.0)
        used = tl.trans(used.to(incoming.dtype))
        value_slope = tl.dot(used, incoming, value_slope, input_precision=PRECISION)
        slope = weights * (slope - tl.sum(weights * slope, 1)[:, None])
        if TO_MASK:
            to_mask_head = _head(to_mask, to_mask_strides, lane, batch, head)
            _store(to_mask_head, to_mask_strides, row, QUERIES, place, slope, KEYS)
        slope = (slope * scale).to(key.dtype)
        result = tl.dot(slope, key, input_precision=PRECISION)
        _store(to_query, to_query_strides, row, QUERIES, column, result, SIZE)
        key_slope = tl.dot(tl.trans(slope), some, key_slope, input_precision=PRECISION)
    to_key = _head(to_key, to_key_strides, lane, batch, head)
    _store(to_key, to_key_strides, place, KEYS, column, key_slope, SIZE)
    to_value = _head(to_value, to_value_strides, lane, batch, head)
    _store(to_value, to_value_strides, place, KEYS, column, value_slope, SIZE)


def _launch(heads: Heads, pattern: Pattern, scores: int):
    """The grid, numbers and constants of both kernels."""
    query, key, _ = heads
    lanes, batch, count, queries, size = query.shape
    keys, mask, drop = key.shape[3], pattern.mask, pattern.drop
    block, width = tile(keys), tile(size)
    rows = min(tile(queries), max(16, scores // block))
    numbers = (
        pattern.scale, pattern.draw,
        round(drop * 2**23) / 2**23, 1.0 / (1.0 - drop) if drop < 1 else 0.0,
    )  # fmt: skip
    return (batch * count, lanes), numbers, {
        "HEADS": count, "QUERIES": queries, "KEYS": keys, "SIZE": size,
        "ROWS": rows, "BLOCK": block, "WIDTH": width,
        "MASK": "" if mask is None else "bool" if mask.dtype == torch.bool else "float",
        "CAUSAL": pattern.causal, "DROP": drop > 0,
        "PRECISION": triton_precision(products_of(query)),
        "num_warps": max(1, min(_MOST_WARPS, max(rows, width) * block // _OF_WARP)),
    }  # fmt: skip


def forward(heads: Heads, pattern: Pattern, out: Tensor) -> None:
    """Write the results into `out`, (L, B, H, S, D)."""
    grid, numbers, how = _launch(heads, pattern, _SCORES)
    mask = heads[0] if pattern.mask is None else pattern.mask  # not read if there is none
    _attention_kernel[grid](
        *heads, mask, pattern.step_keys, out,
        *(tensor.stride() for tensor in (*heads, mask, out)), *numbers, **how,
    )  # fmt: skip


def backward(
    gradient: Tensor, heads: Heads, pattern: Pattern, to_heads: Heads, to_mask: Tensor | None
) -> None:
    """Write the gradients of queries, keys, values and, if it is given, of the mask."""
    grid, numbers, how = _launch(heads, pattern, _GRADIENT_SCORES)
    given = gradient, *heads, heads[0] if pattern.mask is None else pattern.mask
    results = *to_heads, to_heads[0] if to_mask is None else to_mask  # not written if not wanted
    _attention_gradient_kernel[grid](
        *given, pattern.step_keys, *results, *(tensor.stride() for tensor in (*given, *results)),
        *numbers, TO_MASK=to_mask is not None, **how,
    )  # fmt: skip
