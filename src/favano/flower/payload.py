"""Models as bytes: all their numbers, or parameters in few bits by a codec.

Without a codec, the bytes of a model are its numbers, little-endian: parameters, buffers, counters.
With a codec, parameters are a packed message (`quantisation.wire`), and the other numbers follow.
Both sides read what the simulator's link would have read (`Link`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import blake2b

import numpy as np
import torch

from favano.aggregation.link import base_of, noise_of
from favano.errors import BadInput, require
from favano.quantisation import (
    Codec,
    Lattice,
    MinMax,
    Qsgd,
    from_bytes,
    message_bits,
    to_bytes,
)
from favano.rng import Stream, origin
from favano.screening import finite_rows
from favano.training import FlatModel
from favano.types import Stack, Vector

WHOLE = -1  # the key of a model that is sent in full
_CODECS = "need lattice:BITS:SCALE[:dither], min-max:BITS or qsgd:BITS"


@dataclass(frozen=True)
class Shape:
    """What both sides know of the models: lengths of the parameter tensors, and the rest."""

    sizes: tuple[int, ...]
    plain: int  # numbers beside the parameters
    dtype: torch.dtype

    @property
    def parameters(self) -> int:
        """Number of parameters, P."""
        return sum(self.sizes)

    @property
    def trained(self) -> Shape:
        """The shape of the parameters alone."""
        return replace(self, plain=0)

    def bytes_of(self, codec: Codec | None) -> int:
        """Length of a model on the wire."""
        numbers = self.plain if codec is not None else self.plain + self.parameters
        packed = message_bits(codec, self.sizes) // 8 if codec is not None else 0
        return packed + numbers * self.dtype.itemsize


def shape_of(model: FlatModel) -> Shape:
    """The shape of a network's models."""
    plain = model.layout.size - model.layout.parameters
    return Shape(model.parameter_sizes, plain, model.vector.dtype)


def pack(
    model: Vector,
    shape: Shape,
    codec: Codec | None = None,
    *,
    known: Vector | None = None,
    noise: Stack | None = None,
) -> bytes:
    """A model as bytes.

    Args:
        model: the model.
        shape: of all models.
        codec: None: numbers as they are.
        known: a model that both sides have, for codecs of differences.
        noise: the draws of the codec (`draws`).
    """
    if codec is None:
        return _raw(model)
    assert noise is not None
    assert known is not None
    count = shape.parameters
    rule = f"has NaN or infinity, which {codec.name} has no code for"
    require(finite_rows(model[None])[0], "model", f"{len(model)} numbers", rule)
    values = model[None, :count].double() - base_of(codec, known[None, :count])
    return to_bytes(codec, codec.encode(values, noise, shape.sizes)) + _raw(model[count:])


def unpack(
    data: bytes,
    shape: Shape,
    codec: Codec | None = None,
    *,
    key: Vector | None = None,
    known: Vector | None = None,
) -> Vector:
    """The model in these bytes, as its receiver reads it; a wrong length is refused.

    Args:
        data: from `pack`.
        shape: of all models.
        codec: as in `pack`.
        key: a model of the receiver that is near the sender's, for codecs that need one.
        known: as in `pack`.
    """
    size = shape.bytes_of(codec)
    require(len(data) == size, "model", f"{len(data)} bytes", f"need {size}")
    if codec is None:
        return _numbers(data, shape.dtype)
    rest = shape.plain * shape.dtype.itemsize
    coded = from_bytes(codec, data[: len(data) - rest], shape.sizes)
    assert key is not None
    assert known is not None
    count = shape.parameters
    decoded = codec.decode(coded, key[None, :count], shape.sizes)
    (parameters,) = base_of(codec, known[None, :count]) + decoded
    return torch.cat([parameters.to(shape.dtype), _numbers(data[len(data) - rest :], shape.dtype)])


def draws(codec: Codec, parameters: int, *, seed: int, stream: int, message: int) -> Stack:
    """The uniform draws of one message, (1, draws): a function of (seed, stream, message)."""
    begin, number = origin(seed, Stream.QUANTISER, [stream]), np.array([message])
    return noise_of(codec, parameters, begin, number, torch.device("cpu"))


def fingerprint(model: Vector) -> int:
    """A number by which both sides know that they mean the same model, to the bit."""
    return int.from_bytes(blake2b(_raw(model), digest_size=8).digest()) >> 1


def codec_text(codec: Codec | None) -> str:
    """The name of a codec."""
    if codec is None:
        return "none"
    if isinstance(codec, Lattice):
        return f"lattice:{codec.bits}:{codec.scale!r}" + (":dither" if codec.dither else "")
    return f"{codec.name}:{codec.bits}"


def read_codec(text: str) -> Codec | None:
    """The codec of this name.

    >>> read_codec("qsgd:8"), read_codec("none"), read_codec("lattice:14:0.0001")
    (Qsgd(bits=8), None, Lattice(bits=14, scale=0.0001, dither=False))
    """
    if text == "none":
        return None
    match text.split(":"):
        case ["lattice", bits, scale, *rest] if rest in ([], ["dither"]):
            return Lattice(bits=_whole(bits, text), scale=_scale(scale, text), dither=bool(rest))
        case ["min-max", bits]:
            return MinMax(bits=_whole(bits, text))
        case ["qsgd", bits]:
            return Qsgd(bits=_whole(bits, text))
    raise BadInput("codec", text, _CODECS)


def _whole(word: str, text: str) -> int:
    require(word.isdecimal() and len(word) < 3, "codec", text, _CODECS)
    return int(word)


def _scale(word: str, text: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise BadInput("codec", text, _CODECS) from None


def _raw(model: Vector) -> bytes:
    numbers = model.detach().cpu().numpy()
    return numbers.astype(numbers.dtype.newbyteorder("<"), copy=False).tobytes()


def _numbers(data: bytes, dtype: torch.dtype) -> Vector:
    kind = "<f4" if dtype == torch.float32 else "<f8"
    numbers = np.frombuffer(data, dtype=kind)
    return torch.from_numpy(numbers.astype(numbers.dtype.newbyteorder("=")))  # a copy of our own


def dtype_of(name: str) -> torch.dtype:
    """PyTorch's type of a name in a call."""
    return {"float32": torch.float32, "float64": torch.float64}[name]
