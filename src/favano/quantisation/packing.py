"""Packing of whole numbers of b bits each, without gaps."""

from __future__ import annotations

import numpy as np

from favano.errors import require
from favano.quantisation.codec import check_bits
from favano.types import Ints

_AT_ONCE = 1 << 16  # codes packed at once; a multiple of 8, so that a piece ends with a whole byte


def packed_size(count: int, bits: int) -> int:
    """Number of bytes of `count` codes."""
    return -(-count * bits // 8)


def pack(codes: Ints, bits: int) -> bytes:
    """Codes of 0..2^bits - 1, most significant bit first; the last byte is filled with zeros.

    >>> pack(np.array([1, 2, 7]), 3).hex()
    '2b80'
    """
    check_bits(bits)
    inside = not len(codes) or (int(codes.min()) >= 0 and int(codes.max()) < 1 << bits)
    require(inside, "codes", f"{len(codes)} numbers", f"need 0..{(1 << bits) - 1}")
    pieces = (codes[first : first + _AT_ONCE] for first in range(0, len(codes), _AT_ONCE))
    return b"".join(_pack_piece(piece, bits) for piece in pieces)


def unpack(data: bytes, bits: int, count: int) -> Ints:
    """The inverse of `pack`; refuses bytes that `pack` cannot have made."""
    check_bits(bits)
    size = packed_size(count, bits)
    rule = f"need {size} for {count} codes of {bits} bits"
    require(len(data) == size, "packed bytes", len(data), rule)
    step = packed_size(_AT_ONCE, bits)
    raw = np.frombuffer(data, dtype=np.uint8)
    fill = 8 * size - count * bits
    padded = bool(fill) and int(raw[-1]) & ((1 << fill) - 1) != 0
    require(not padded, "packed bytes", len(data), f"the last {fill} bits are padding, need zeros")
    codes = np.empty(count, dtype=np.int64)
    for number, first in enumerate(range(0, count, _AT_ONCE)):
        last = min(count, first + _AT_ONCE)
        piece = raw[number * step : number * step + packed_size(last - first, bits)]
        codes[first:last] = _unpack_piece(piece, bits, last - first)
    return codes


def _pack_piece(codes: Ints, bits: int) -> bytes:
    width = packed_size(1, bits)  # bytes that hold one code
    raw = codes.astype(">u4").view(np.uint8).reshape(-1, 4)[:, 4 - width :]
    single = np.unpackbits(raw, axis=1)[:, 8 * width - bits :]
    return np.packbits(single).tobytes()


def _unpack_piece(raw: np.ndarray[tuple[int], np.dtype[np.uint8]], bits: int, count: int) -> Ints:
    single = np.unpackbits(raw, count=count * bits).reshape(count, bits)
    full = np.zeros((count, 32), dtype=np.uint8)
    full[:, 32 - bits :] = single
    return np.packbits(full, axis=1).view(">u4").reshape(count).astype(np.int64)
