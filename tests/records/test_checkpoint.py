"""Checkpoint files: exact, and refused by a sentence if a bit is wrong."""

from __future__ import annotations

import hashlib
from math import inf, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from favano.records.checkpoint import Tree, checkpoint_from_bytes, checkpoint_to_bytes

TREE: Tree = [
    None, True, 3, 0.1, nan, -inf, "two\nlines", np.arange(3), np.array(0.5), np.zeros((0, 4)),
    [[], [np.array([True, False]), np.array([[2**62]], dtype=np.uint64)]],
]  # fmt: skip


def shown(tree: Tree) -> object:
    if isinstance(tree, np.ndarray):
        return tree.dtype, tree.shape, tree.tobytes()
    return [shown(item) for item in tree] if isinstance(tree, list) else repr(tree)


def test_what_is_written_is_read() -> None:
    assert shown(checkpoint_from_bytes(checkpoint_to_bytes(TREE))) == shown(TREE)


@given(st.integers(0, len(checkpoint_to_bytes(TREE)) - 1), st.integers(1, 255))
def test_any_changed_byte_is_found(place: int, change: int) -> None:
    content = bytearray(checkpoint_to_bytes(TREE))
    content[place] ^= change
    with pytest.raises(ValueError, match=r"^(is not a checkpoint|is damaged|has format)"):
        checkpoint_from_bytes(bytes(content))


@given(st.binary(max_size=200), st.booleans())
def test_no_bytes_are_read_as_something_else(body: bytes, signed: bool) -> None:
    head = f"favano-checkpoint 1 {hashlib.sha256(body).hexdigest()}\n".encode() if signed else b""
    with pytest.raises(ValueError, match=r"^(is not a checkpoint|is damaged|has format)"):
        checkpoint_from_bytes(head + body)
