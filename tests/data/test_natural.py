"""Splits that the data say: columns, files and lists."""

from __future__ import annotations

from errno import EACCES
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

from favano.data.natural import file_owners, is_natural, numbered, owned_parts, owners_of
from favano.data.partition import SPLITS, Traits, check_split, partition
from favano.errors import BadInput

WRITERS = np.array([2, 0, 2, -1, 1, 2, 0])


def test_which_splits_are_natural() -> None:
    assert [how for how in (*SPLITS, "own") if is_natural(how)] == [
        "column:NAME",
        "file:PATH",
        "own",
    ]
    for how in ("column:", "file:", "column", "owned"):
        with pytest.raises(BadInput, match=f"^split={how}: need one of iid"):
            check_split(how)


def test_every_client_has_its_own_samples_and_nobodys_are_left_out() -> None:
    parts = owned_parts(WRITERS, 3, "own", seed=0)
    assert [part.tolist() for part in parts] == [[1, 6], [4], [0, 2, 5]]


def test_fewer_clients_are_drawn_by_seed() -> None:
    owners = np.repeat(np.arange(40), 3)
    drawn = [owned_parts(owners, 5, "own", seed) for seed in range(3)]
    chosen = [[int(owners[part[0]]) for part in parts] for parts in drawn]
    assert all(len(part) == 3 for parts in drawn for part in parts)
    assert all(clients == sorted(set(clients)) for clients in chosen)
    assert len({tuple(clients) for clients in chosen}) == 3
    again = owned_parts(owners, 5, "own", 0)
    assert [part.tolist() for part in again] == [part.tolist() for part in drawn[0]]


def test_more_clients_than_the_data_have_are_refused() -> None:
    message = r"^clients=4: need 1..3, the clients of split=column:writer$"
    with pytest.raises(BadInput, match=message):
        partition(Traits(7, owners={"writer": WRITERS}), 4, "column:writer", seed=0)


def test_a_missing_column_is_refused_with_those_there_are() -> None:
    traits = Traits(7, owners={"writer": WRITERS, "hand": WRITERS})
    assert traits.clients_by("column:writer") == 3
    rule = "is no column of words or whole numbers beside inputs and labels"
    message = rf"^split=column:writers: {rule}; need one of writer, hand$"
    with pytest.raises(BadInput, match=message):
        partition(traits, 3, "column:writers", seed=0)
    with pytest.raises(BadInput, match=rf"{rule}; the data have none$"):
        partition(Traits(7), 3, "column:writers", seed=0)


def test_samples_of_nobody_are_counted_once(caplog: pytest.LogCaptureFixture) -> None:
    traits = Traits(7, owners={"writer": WRITERS, "hand": WRITERS + 1})
    for seed in range(2):
        partition(traits, 3, "column:writer", seed)
    said = "split=column:writer leaves out 1 of 7 training samples, which no client has"
    assert caplog.messages == [said]
    partition(Traits(7, owners=traits.owners), 3, "column:hand", seed=0)
    assert caplog.messages == [said]


def test_a_split_without_clients_is_refused() -> None:
    traits = Traits(3, owners={"file:none.txt": np.full(3, -1)})
    for ask in (traits.clients_by, lambda how: partition(traits, 3, how, seed=0)):
        with pytest.raises(BadInput, match=r"^split=file:none.txt: names no client; -1, blank and"):
            ask("file:none.txt")


def test_without_classes_only_iid_deals_out() -> None:
    parts = partition(Traits(7), 3, "iid", seed=0)
    assert sorted(np.concatenate(parts).tolist()) == list(range(7))
    with pytest.raises(BadInput, match=r"^split=two-class: deals out by class; targets"):
        partition(Traits(7), 3, "two-class", seed=0)


def test_lists_of_samples_become_owners() -> None:
    owners = owners_of([np.array([4, 0]), np.array([2])], 6)
    assert owners.tolist() == [0, -1, 1, -1, 0, -1]


@pytest.mark.parametrize(
    ("lists", "rule"),
    [
        ([[0], []], r"client 1 has no samples: need at least one each"),
        ([[0], [6]], r"client 1 has samples outside 0\.\.5"),
        ([[0], [-1]], r"client 1 has samples outside 0\.\.5"),
        ([[0, 1], [1]], r"client 1 has samples that are in the lists twice"),
        ([[0, 0]], r"client 0 has samples that are in the lists twice"),
    ],
)
def test_lists_that_are_no_split_are_refused(lists: list[list[int]], rule: str) -> None:
    with pytest.raises(BadInput, match=rf"^split=own: {rule}"):
        owners_of([np.array(samples, dtype=np.int64) for samples in lists], 6)


def test_numbers_of_clients_follow_their_order() -> None:
    assert numbered(np.array(["b", "a", "b"])).tolist() == [1, 0, 1]
    assert numbered(np.array([9, -5, -1, 3])).tolist() == [2, 0, -1, 1]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("plain.txt", "30\n10\n\n30\n"),
        ("names.txt", "zoe\n anna\nzoe\n"),
        ("table.csv", "sample,client\n0,30\n1,10\n2,30\n"),
        ("column.csv", "client\n30\n10\n30\n"),
    ],
)
def test_files_of_clients(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    how = f"file:{tmp_path / name}"
    assert file_owners(how, 3)[how].tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    "cells",
    [
        ("b", "a", "-1"),
        ("2", "1", "-1"),
        ("b", "a", ""),
        ("10", "9", ""),
        ("b", "a", " -1 "),
        ("b", "a", "-1.0"),
        ("b", "1", "-1"),
    ],
)
def test_minus_one_and_blank_cells_are_nobodys(cells: tuple[str, ...], tmp_path: Path) -> None:
    rows = "".join(f"{place},{cell}\n" for place, cell in enumerate(cells))
    (tmp_path / "table.csv").write_text(f"sample,client\n{rows}")
    how = f"file:{tmp_path / 'table.csv'}"
    assert file_owners(how, 3)[how].tolist() == [1, 0, -1]


def test_arrays_of_names(tmp_path: Path) -> None:
    np.save(tmp_path / "names.npy", np.array(["zoe", "anna", "-1", "", "zoe"]))
    how = f"file:{tmp_path / 'names.npy'}"
    assert file_owners(how, 5)[how].tolist() == [1, 0, -1, -1, 1]


def test_arrays_of_clients(tmp_path: Path) -> None:
    np.save(tmp_path / "owners.npy", np.array([7, 5, 7, -1], dtype=np.int32))
    how = f"file:{tmp_path / 'owners.npy'}"
    assert file_owners(how, 4)[how].tolist() == [1, 0, 1, -1]
    assert file_owners("iid", 4) == {}


@pytest.mark.parametrize(
    ("name", "text", "rule"),
    [
        ("few.txt", "0\n1\n", "names 2 clients, need one for each of 3 training samples"),
        ("empty.txt", "", "is empty: need one client per line"),
        ("wide.csv", "0,1\n1,1\n2,1\n", "has 2 columns: need one, or the heading client"),
        ("short.csv", "sample,client\n0,1\n1\n2,1\n", "row 1 has no client"),
        ("odd.npy", "no array", "cannot be read: need .npy, or text with a client per line"),
    ],
)
def test_files_that_are_no_split_are_refused(
    name: str, text: str, rule: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(BadInput) as refused:
        file_owners(f"file:{tmp_path / name}", 3)
    assert str(refused.value) == f"split=file:{tmp_path / name}: {rule}"


@pytest.mark.parametrize("name", ["split.txt", "split.npy"])
def test_a_file_that_must_not_be_read_is_refused_with_the_reason(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may read all files, so the system's error is raised here."""
    (tmp_path / name).write_text("0\n")

    def refuse(*_: object, **__: object) -> NoReturn:
        raise PermissionError(EACCES, "Permission denied", name)

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(BadInput, match=r": cannot be read: Permission denied$"):
        file_owners(f"file:{tmp_path / name}", 1)


def test_arrays_that_are_no_split_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "shares.npy", np.array([0.5, 0.5, 1.0]))
    with pytest.raises(BadInput, match=r"holds float64 \(3,\): need one client per sample$"):
        file_owners(f"file:{tmp_path / 'shares.npy'}", 3)
    with pytest.raises(BadInput, match=r"^split=file:nowhere.txt: no such file$"):
        file_owners("file:nowhere.txt", 3)


def test_zero_is_the_name_of_a_client() -> None:
    """Among names, numbers are names, and only -1 is nobody's."""
    names = np.array(["b", "0", "-1", "0.0", "-0.5", "nan", " "])
    assert numbered(names).tolist() == [3, 1, -1, 2, 0, 4, -1]


def test_a_single_client_has_the_number_zero() -> None:
    assert Traits(3, owners={"town": np.array([0, -1, 0])}).clients_by("column:town") == 1
