"""Shakespeare by role: windows, their split, and both layouts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from favano.data import load
from favano.data.dataset import Dataset, Rows
from favano.data.preprocessing import Preprocessing
from favano.data.text import ALPHABET, WINDOW, coded, hold_out, read
from favano.errors import BadInput

LENGTHS = {"HAMLET": 1000, "GHOST": 400, "OPHELIA": 700}  # the ghost says too little


def text_of(role: str) -> str:
    letters = "abcdefghij klmnop, qrstuv\nWXYZ! " * 40
    start = len(role)
    return letters[start : start + LENGTHS[role] - 1] + "\n"


def written(folder: Path, columns: dict[str, list[str]]) -> Path:
    (folder / "shakespeare").mkdir(parents=True)
    table = pyarrow.table(columns)
    pyarrow.parquet.write_table(table, folder / "shakespeare" / "train-0.parquet")
    return folder


def speeches(folder: Path) -> Path:
    """Roles take turns, as in a play."""
    rows: list[tuple[str, str]] = []
    for role in LENGTHS:
        first, second = text_of(role)[:150], text_of(role)[151:-1]
        rows = [*rows[:1], (role, first), *rows[1:], (role, second)]
    names, said = zip(*rows, strict=True)
    return written(folder, {"character_id": list(names), "text": list(said)})


def windows(folder: Path) -> Path:
    """The layout of the hub."""
    x, y, who = [], [], []
    for role in LENGTHS:
        said = text_of(role)
        for place in range(len(said) - WINDOW):
            x.append(said[place : place + WINDOW])
            y.append(said[place + WINDOW])
            who.append(role)
    return written(folder, {"character_id": who, "x": x, "y": y})


def loaded(folder: Path, tmp_path: Path) -> Dataset:
    return load("shakespeare", data_dir=folder, cache_dir=tmp_path / "cache")


def spoken(dataset: Dataset, part: str) -> list[str]:
    """The windows of a part with their next characters, as texts."""
    rows = dataset.train if part == "train" else dataset.test
    both = np.concatenate([rows.inputs, rows.labels[:, None].astype(np.uint8)], axis=1)
    return ["".join(ALPHABET[code] for code in row) for row in both]


def test_the_alphabet_is_leafs() -> None:
    assert len(ALPHABET) == len(set(ALPHABET)) == 80
    assert coded("\n}").tolist() == [0, 79]
    assert coded("$é").tolist() == coded("  ").tolist()


def test_the_last_fifth_of_each_text_is_for_testing(tmp_path: Path) -> None:
    dataset = loaded(windows(tmp_path / "data"), tmp_path)
    said = text_of("HAMLET")
    train, test = spoken(dataset, "train"), spoken(dataset, "test")
    assert train[:720] == [said[place : place + WINDOW + 1] for place in range(720)]
    assert test[:2] == [said[800 : 801 + WINDOW], said[880 : 881 + WINDOW]]
    owners = dataset.train.owners["character_id"]
    assert np.bincount(owners).tolist() == [720, 0, 480]
    assert np.bincount(dataset.test.owners["character_id"]).tolist() == [2, 0, 1]
    assert dataset.classes == 80
    assert dataset.input_shape == (WINDOW,)


def test_both_layouts_say_the_same(tmp_path: Path) -> None:
    theirs = loaded(windows(tmp_path / "a"), tmp_path)
    mine = load("shakespeare", data_dir=speeches(tmp_path / "b"), cache_dir=tmp_path / "other")
    for part in ("train", "test"):
        assert len(spoken(mine, part)) == len(spoken(theirs, part))
    assert spoken(mine, "test") == spoken(theirs, "test")


def test_held_out_windows_share_no_text_with_those_of_training(tmp_path: Path) -> None:
    folder = windows(tmp_path / "data")
    held = load("shakespeare", data_dir=folder, cache_dir=tmp_path / "cache", holdout=5)
    said = text_of("HAMLET")
    assert np.bincount(held.test.owners["character_id"]).tolist() == [3, 0, 2]
    assert spoken(held, "test")[0] == said[800 - 2 * WINDOW - 81 : 800 - 2 * WINDOW]
    assert spoken(held, "test")[2] == said[800 - 81 : 800]
    hamlets = held.train.owners["character_id"] == 0
    assert spoken(held, "train")[hamlets.sum() - 1] == said[800 - 2 * WINDOW - 162 :][:81]
    with pytest.raises(BadInput, match=r"^holdout=16: need 1\.\.15, windows that do not overlap$"):
        load("shakespeare", data_dir=folder, cache_dir=tmp_path / "cache", holdout=16)


def test_other_columns_are_refused(tmp_path: Path) -> None:
    folder = written(tmp_path / "data", {"character_id": ["A"], "line": ["To be"]})
    message = "dataset=shakespeare: columns character_id, line: need character_id, and text or"
    with pytest.raises(BadInput, match=message):
        loaded(folder, tmp_path)


def test_windows_of_another_length_are_refused(tmp_path: Path) -> None:
    folder = written(tmp_path / "data", {"character_id": ["A"], "x": ["To be"], "y": ["!"]})
    with pytest.raises(BadInput, match="row 0: need x of 80 characters and y of one"):
        loaded(folder, tmp_path)


def test_pixels_are_not_expected(tmp_path: Path) -> None:
    folder = windows(tmp_path / "data")
    with pytest.raises(BadInput, match=r"^normalise=True: shakespeare has no images$"):
        load("shakespeare", data_dir=folder, cache_dir=tmp_path / "cache", normalise=True)


def test_the_real_text(data_root: Path, tmp_path: Path) -> None:
    dataset = load("shakespeare", data_dir=data_root, cache_dir=tmp_path)
    owners = dataset.train.owners["character_id"]
    sizes = np.bincount(owners)
    assert len(dataset.train.labels) == 3_320_237
    assert np.count_nonzero(sizes) == 862
    tested = np.unique(dataset.test.owners["character_id"])
    assert tested.tolist() == np.flatnonzero(sizes).tolist()


def test_every_role_keeps_text_to_train_on() -> None:
    """Of 161 windows, two could be held out, but the first of them would leave nothing."""
    windows = np.zeros((161, WINDOW), dtype=np.uint8)
    rows = Rows(windows, np.arange(161) % 7, {"character_id": np.zeros(161, dtype=np.int64)})
    dataset = Dataset("roles", rows, rows, 80, Preprocessing(scale=1.0, tokens=True))
    held_out = hold_out(dataset, 2)
    assert (len(held_out.train.labels), len(held_out.test.labels)) == (80, 1)
    assert held_out.test.labels.tolist() == [160 % 7]  # the last of its text
    with pytest.raises(BadInput, match=r"holdout=3: need 1\.\.2, windows that do not overlap"):
        hold_out(dataset, 3)


def test_codes_beyond_the_alphabet_are_refused(tmp_path: Path) -> None:
    text, roles = np.zeros(1000, dtype=np.uint8), np.zeros(1000, dtype=np.int64)
    text[5] = len(ALPHABET) - 1
    for name, array in (("text", text), ("roles", roles)):
        np.save(tmp_path / f"{name}.npy", array)
    assert len(read(tmp_path)[0].labels) > 0
    text[5] = len(ALPHABET)
    np.save(tmp_path / "text.npy", text)
    with pytest.raises(BadInput, match="holds codes beyond the 80 characters"):
        read(tmp_path)
