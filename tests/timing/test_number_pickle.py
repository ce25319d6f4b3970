"""Pickles of numbers are read as Python does; tests/cli/test_bad_fleets.py has hostile ones."""

from __future__ import annotations

import pickle
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from favano.errors import BadInput
from favano.timing.number_pickle import read_numbers
from tests.examples import examples

numbers = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
documents = st.recursive(
    numbers,
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.integers() | st.text(), inner)
        | st.lists(inner).map(tuple)
    ),
)


@given(document=documents, protocol=st.integers(0, 5))
@examples(30)
def test_what_is_read_is_what_was_written(
    document: object, protocol: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "document"
    path.write_bytes(pickle.dumps(document, protocol))
    assert read_numbers(path, "fleet", path) == document


def is_plain(held: object) -> bool:
    """Whether it is made of numbers, words and containers, and of no class of anybody's."""
    if isinstance(held, dict):
        return type(held) is dict and all(map(is_plain, (*held.keys(), *held.values())))
    if isinstance(held, list | tuple):
        return type(held) in (list, tuple) and all(map(is_plain, held))
    return held is None or type(held) in (int, float, bool, str, bytes)


@given(damage=st.data())
def test_damaged_bytes_are_read_or_refused(
    damage: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    whole = bytearray(pickle.dumps({1: {"active": [1.5, 2], "model": "x"}, 2: (3, None)}, 4))
    for _ in range(damage.draw(st.integers(1, 4))):
        whole[damage.draw(st.integers(0, len(whole) - 1))] = damage.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "damaged"
    path.write_bytes(whole)
    with suppress(BadInput):
        assert is_plain(read_numbers(path, "fleet", "fedscale:damaged"))


def test_a_shared_list_is_one_list(tmp_path: Path) -> None:
    row = [1, 2]
    (tmp_path / "shared").write_bytes(pickle.dumps({1: row, 2: row}))
    held = read_numbers(tmp_path / "shared", "fleet", "shared")
    assert isinstance(held, dict)
    assert held[1] is held[2]
