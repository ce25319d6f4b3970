"""Messages as bytes: exactly inverse, as long as counted, and malformed ones refused by name."""

from __future__ import annotations

import struct

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from favano.errors import BadInput
from favano.quantisation import Codec, Lattice, MinMax, Qsgd, from_bytes, message_bits, to_bytes
from tests.quantisation.draws import SIZES, encoded, vector

CODECS: list[Codec] = [Lattice(), Lattice(bits=5, dither=True), MinMax(bits=3), Qsgd(bits=6)]
HEADER = 14


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: f"{codec.name}-{codec.bits}")
def test_round_trip(codec: Codec) -> None:
    coded = encoded(codec, vector(), 1)
    data = to_bytes(codec, coded)
    back = from_bytes(codec, data, SIZES)
    assert torch.equal(back.codes, coded.codes)
    assert torch.equal(back.scalars, coded.scalars)
    key = vector()[None]
    assert torch.equal(codec.decode(back, key, SIZES), codec.decode(coded, key, SIZES))
    assert 8 * len(data) == message_bits(codec, SIZES)


@given(bits=st.integers(2, 32), sizes=st.lists(st.integers(1, 50), min_size=1, max_size=5))
def test_bits_are_those_really_packed(bits: int, sizes: list[int]) -> None:
    values = torch.linspace(-1, 1, sum(sizes), dtype=torch.float64)[None]
    for codec in (Lattice(bits=bits), MinMax(bits=bits), Qsgd(bits=bits)):
        noise = torch.full((1, codec.draws(sum(sizes))), 0.5)
        data = to_bytes(codec, codec.encode(values, noise, sizes))
        assert 8 * len(data) == message_bits(codec, sizes)


def test_lengths_by_hand() -> None:
    code_bytes = -(-40 * 14 // 8)
    assert message_bits(Lattice(), SIZES) == 8 * (HEADER + 8 + code_bytes)
    assert message_bits(MinMax(bits=8), SIZES) == 8 * (HEADER + 8 * 6 + 40)
    assert message_bits(Qsgd(bits=8), SIZES) == 8 * (HEADER + 8 * 3 + 40)


def changed(data: bytes, place: int, value: bytes) -> bytes:
    return data[:place] + value + data[place + len(value) :]


def test_malformed_messages_are_refused_by_name() -> None:
    codec = Qsgd(bits=6)
    data = to_bytes(codec, encoded(codec, vector(), 1))
    not_a_number = struct.pack("<d", float("nan"))
    for bad, message in (
        (b"", r"message=0 bytes: is shorter than its header"),
        (changed(data, 0, b"PK"), r"need b'FVN1' at the beginning"),
        (changed(data, 4, b"\x01"), r"message codec=lattice: need qsgd"),
        (changed(data, 4, b"\x09"), r"message codec=codec 9: need qsgd"),
        (changed(data, 5, b"\x07"), r"message bits=7: need 6"),
        (changed(data, 6, b"\x02"), r"message scalars=2: need 3"),
        (changed(data, 10, b"\xff\xff\xff\xff"), r"message codes=4294967295: need 40"),
        (data[:-1], rf"message={len(data) - 1} bytes: need {len(data)}"),
        (data + b"\0", rf"message={len(data) + 1} bytes: need {len(data)}"),
        (changed(data, HEADER, not_a_number), r"message scalars=.*need finite ones"),
        (changed(data, HEADER + 24, b"\xff"), r"message code=63: need 0..62"),
    ):
        with pytest.raises(BadInput, match=message):
            from_bytes(codec, bad, SIZES)


@given(st.binary(max_size=120))
def test_noise_is_refused_or_read(data: bytes) -> None:
    codec = MinMax(bits=3)
    whole = to_bytes(codec, encoded(codec, vector(), 1))
    candidate = (whole[:HEADER] + data)[: len(whole)]
    try:
        coded = from_bytes(codec, candidate, SIZES)
    except BadInput:
        return
    assert to_bytes(codec, coded) == candidate


def test_one_message_at_a_time() -> None:
    with pytest.raises(BadInput, match="messages=2: need 1 at a time"):
        to_bytes(Lattice(), encoded(Lattice(), vector(), 2))
