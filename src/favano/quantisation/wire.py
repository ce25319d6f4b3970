"""A message as bytes: a header, the scalars, the packed codes.

    magic 4s | codec u8 | bits u8 | scalars u32 | codes u32 | scalars f64 ... | codes, b bits each

Numbers are little-endian; codes have the most significant bit first.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import numpy as np
import torch

from favano.errors import require
from favano.quantisation.codec import Codec, CodedMessages
from favano.quantisation.packing import pack, packed_size, unpack

_HEADER = struct.Struct("<4sBBII")
_MAGIC = b"FVN1"
_NUMBERS: Mapping[str, int] = {"lattice": 1, "min-max": 2, "qsgd": 3}


def message_bits(codec: Codec, sizes: Sequence[int]) -> int:
    """Bits of one message: the length of the result of `to_bytes`."""
    scalars = 8 * codec.scalars(len(sizes))
    return 8 * (_HEADER.size + scalars + packed_size(sum(sizes), codec.bits))


def to_bytes(codec: Codec, coded: CodedMessages) -> bytes:
    """One message, (1, d) codes, as bytes."""
    require(len(coded.codes) == 1, "messages", len(coded.codes), "need 1 at a time")
    codes = coded.codes[0].cpu().numpy()
    scalars = coded.scalars[0].cpu().numpy().astype("<f8")
    head = _HEADER.pack(_MAGIC, _NUMBERS[codec.name], codec.bits, len(scalars), len(codes))
    return head + scalars.tobytes() + pack(codes, codec.bits)


def from_bytes(codec: Codec, data: bytes, sizes: Sequence[int]) -> CodedMessages:
    """The inverse of `to_bytes`, for a vector of tensors of these sizes.

    Refuses messages of another codec, width or length, and malformed ones.
    """
    require(
        len(data) >= _HEADER.size, "message", f"{len(data)} bytes", "is shorter than its header"
    )
    magic, number, bits, scalars, count = _HEADER.unpack_from(data)
    require(magic == _MAGIC, "message", repr(magic), f"need {_MAGIC!r} at the beginning")
    stated = {value: name for name, value in _NUMBERS.items()}.get(number, f"codec {number}")
    require(stated == codec.name, "message codec", stated, f"need {codec.name}")
    require(bits == codec.bits, "message bits", bits, f"need {codec.bits}")
    require(count == sum(sizes), "message codes", count, f"need {sum(sizes)}")
    expected = codec.scalars(len(sizes))
    require(scalars == expected, "message scalars", scalars, f"need {expected}")
    size = message_bits(codec, sizes) // 8
    require(len(data) == size, "message", f"{len(data)} bytes", f"need {size}")
    first = _HEADER.size + 8 * scalars
    numbers = np.frombuffer(data[_HEADER.size : first], dtype="<f8").astype(np.float64)
    require(
        bool(np.isfinite(numbers).all()), "message scalars", numbers.tolist(), "need finite ones"
    )
    codes = unpack(data[first:], bits, count)
    most = int(codes.max(initial=0))
    require(most <= codec.largest, "message code", most, f"need 0..{codec.largest}")
    return CodedMessages(torch.from_numpy(codes)[None], torch.from_numpy(numbers)[None])
