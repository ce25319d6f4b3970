"""Packing: dense, exactly inverse, and what cannot have been packed is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from favano.errors import BadInput
from favano.quantisation import pack, packed_size, unpack


@given(st.data(), st.integers(1, 32))
def test_round_trip(data: st.DataObject, bits: int) -> None:
    codes = data.draw(st.lists(st.integers(0, 2**bits - 1), max_size=70))
    packed = pack(np.array(codes, dtype=np.int64), bits)
    assert len(packed) == packed_size(len(codes), bits) == -(-len(codes) * bits // 8)
    assert unpack(packed, bits, len(codes)).tolist() == codes


@given(st.data(), st.integers(1, 32), st.integers(1, 40))
def test_whatever_unpacks_packs_to_the_same_bytes(
    data: st.DataObject, bits: int, count: int
) -> None:
    size = packed_size(count, bits)
    fill = 8 * size - count * bits
    number = data.draw(st.integers(0, 2 ** (count * bits) - 1)) << fill
    raw = number.to_bytes(size, "big")
    assert pack(unpack(raw, bits, count), bits) == raw
    if fill:
        with pytest.raises(BadInput, match=f"the last {fill} bits are padding, need zeros"):
            unpack((number + 1).to_bytes(size, "big"), bits, count)


@pytest.mark.parametrize("bits", [1, 7, 14, 32])
def test_more_codes_than_one_piece(bits: int) -> None:
    codes = np.random.default_rng(bits).integers(0, 2**bits, 2 * 2**16 + 3)
    assert (unpack(pack(codes, bits), bits, len(codes)) == codes).all()


def test_the_bits_stand_one_after_the_other() -> None:
    text = "".join(f"{code:05b}" for code in (1, 30, 17))
    packed = pack(np.array([1, 30, 17]), 5)
    assert "".join(f"{byte:08b}" for byte in packed) == text + "0"


def test_refused_by_name() -> None:
    with pytest.raises(BadInput, match=r"codes=2 numbers: need 0..7"):
        pack(np.array([1, 8]), 3)
    with pytest.raises(BadInput, match=r"codes=1 numbers: need 0..7"):
        pack(np.array([-1]), 3)
    with pytest.raises(BadInput, match=r"bits=0: need 1..32"):
        pack(np.array([0]), 0)
    with pytest.raises(BadInput, match=r"packed bytes=2: need 1 for 2 codes of 3 bits"):
        unpack(b"\0\0", 3, 2)
    with pytest.raises(BadInput, match="the last 2 bits are padding"):
        unpack(b"\x01", 3, 2)
