"""Local Parquet files, with and without Hugging Face `datasets` installed."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from favano.data import load
from favano.data.origins import Folder
from favano.data.parquet import read_parquet
from favano.errors import BadInput

from .conftest import ImageEncoder, ParquetWriter


@pytest.fixture
def own(tmp_path: Path, write_parquet: ParquetWriter, encode: ImageEncoder) -> Path:
    pictures = [encode(value, (3, 2), "RGB") for value in (10, 20, 30)]
    write_parquet(tmp_path / "own" / "train-0.parquet", pictures, [0, 1, 2])
    write_parquet(tmp_path / "own" / "train-1.parquet", pictures[:1], [3])
    write_parquet(tmp_path / "own" / "test-0.parquet", pictures[:2], [1, 0])
    return tmp_path / "own"


def test_arrays_do_not_depend_on_the_library(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = load(str(own), cache_dir=tmp_path / "a")
    monkeypatch.setitem(sys.modules, "datasets", None)
    second = load(str(own), cache_dir=tmp_path / "b")
    assert first.classes == second.classes == 4
    for mine, other in ((first.train, second.train), (first.test, second.test)):
        assert np.array_equal(mine.inputs, other.inputs)
        assert np.array_equal(mine.labels, other.labels)
    assert second.train.labels.tolist() == [0, 1, 2, 3]


def test_files_are_joined_in_order(own: Path) -> None:
    files = tuple(own / f"{part}-0.parquet" for part in ("train", "test"))
    tables = read_parquet(Folder("own", files, files[:1]), "own")
    assert tables["train"]["label"].to_pylist() == [0, 1, 2, 1, 0]
    assert tables["test"]["label"].to_pylist() == [0, 1, 2]


def write_writers(folder: Path, rows: list[tuple[str, int, int]]) -> None:
    split, index, writer = zip(*rows, strict=True)
    columns = {"split": list(split), "index": list(index), "writer_id": list(writer)}
    pyarrow.parquet.write_table(pyarrow.table(columns), folder / "writers.parquet")


def test_a_file_of_writers_says_whose_the_images_are(own: Path, tmp_path: Path) -> None:
    train = [("train", 2, 5), ("train", 0, 7), ("train", 1, 5), ("train", 3, 7)]
    before = load(str(own), cache_dir=tmp_path / "a")
    write_writers(own, [*train, ("test", 1, 9), ("test", 0, 7)])
    dataset = load(str(own), cache_dir=tmp_path / "a")
    assert before.train.owners == {}
    assert dataset.train.owners["writer_id"].tolist() == [0, 1, 1, 0]
    assert dataset.test.owners["writer_id"].tolist() == [0, 2]


def test_a_file_of_too_few_writers_is_refused(own: Path, tmp_path: Path) -> None:
    write_writers(own, [("train", 0, 7), ("train", 1, 5)])
    message = "writers.parquet has 2 rows for train: need one for each of 4 images"
    with pytest.raises(BadInput, match=message):
        load(str(own), cache_dir=tmp_path / "a")


def test_other_files_are_refused(own: Path) -> None:
    broken = own / "test-1.parquet"
    broken.write_bytes(b"no parquet")
    with pytest.raises(BadInput, match="cannot be read; need Parquet with image and label"):
        read_parquet(Folder("own", (broken,), (broken,)), "own")
