"""Columns that say whose the samples are."""

from __future__ import annotations

import pyarrow

from favano.data.tables import owner_codes


def test_a_client_has_one_number_in_all_parts() -> None:
    train = pyarrow.table({"who": ["b", "a", "b"], "hand": [7, 7, 8], "size": [0.5, 1.0, 2.0]})
    test = pyarrow.table({"who": ["c", "a"], "hand": [8, 9], "size": [0.5, 1.0]})
    codes = owner_codes({"train": train, "test": test}, leave_out=("hand",))
    assert {part: sorted(columns) for part, columns in codes.items()} == {
        "train": ["who"],
        "test": ["who"],
    }
    assert codes["train"]["who"].tolist() == [0, 1, 0]
    assert codes["test"]["who"].tolist() == [2, 1]


def test_numbers_name_clients_and_missing_ones_are_nobodys() -> None:
    chunks = pyarrow.chunked_array([[30, None], [10, 30]])
    codes = owner_codes({"train": pyarrow.table({"hand": chunks})})
    assert codes["train"]["hand"].tolist() == [0, -1, 1, 0]


def test_a_test_set_may_lack_the_column_of_the_clients() -> None:
    train, test = pyarrow.table({"who": ["a", "b"]}), pyarrow.table({"other": ["a"]})
    owners = owner_codes({"train": train, "test": test})
    assert {column: codes.tolist() for column, codes in owners["train"].items()} == {"who": [0, 1]}
    assert list(owners["test"]) == ["other"]


def test_words_and_numbers_of_any_type_name_the_same_clients() -> None:
    """Train and test files are often written by different hands."""
    numbers, words = pyarrow.array([7, 8], "int32"), pyarrow.array(["8", "9"], "large_string")
    for own, their in ((numbers, words), (numbers.cast("int64"), words.dictionary_encode())):
        tables = {"train": pyarrow.table({"who": own}), "test": pyarrow.table({"who": their})}
        codes = owner_codes(tables)
        assert {part: column["who"].tolist() for part, column in codes.items()} == {
            "train": [0, 1],
            "test": [1, 2],
        }
