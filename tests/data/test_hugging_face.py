from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import NoReturn

import datasets
import pytest

from favano.data.hugging_face import read_splits
from favano.data.origins import Folder, Hub
from favano.errors import BadInput

from .conftest import ImageEncoder, ParquetWriter

HUB = Hub("cifar10", "uoft-cs/cifar10", "valid")
UNREACHABLE = (
    "dataset=cifar10: no local folder given and uoft-cs/cifar10 cannot be reached on the hub; "
    "give --data-dir or set FAVANO_DATA, or allow network access"
)


def test_local_files_give_two_tables(
    tmp_path: Path, write_parquet: ParquetWriter, encode: ImageEncoder
) -> None:
    picture = encode(7, (3, 2), "L")
    first = write_parquet(tmp_path / "train-0.parquet", [picture], [1])
    second = write_parquet(tmp_path / "train-1.parquet", [picture, picture], [0, 2])
    test = write_parquet(tmp_path / "test-0.parquet", [picture], [5])
    origin = Folder("own", (first, second), (test,))
    tables = read_splits(origin, tmp_path / "arrow", "own")
    assert list(tables["train"]["label"]) == [1, 0, 2]
    assert list(tables["test"]["label"]) == [5]
    assert tables["train"][0]["image"]["bytes"] == picture


def test_the_hubs_column_and_split_names_are_understood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encode: ImageEncoder
) -> None:
    picture = {"bytes": encode(7, (3, 2), "RGB"), "path": None}
    table = datasets.Dataset.from_dict({"img": [picture], "label": [3], "more": ["x"]})

    def download(repository: str, cache_dir: str) -> datasets.DatasetDict:
        assert (repository, cache_dir) == ("uoft-cs/cifar10", str(tmp_path))
        return datasets.DatasetDict({"train": table, "valid": table})

    monkeypatch.setattr(datasets, "load_dataset", download)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: [])
    tables = read_splits(HUB, tmp_path, "cifar10")
    assert sorted(tables) == ["test", "train"]
    assert tables["test"].column_names == ["image", "label"]
    assert tables["test"][0]["image"]["bytes"] == picture["bytes"]


def test_no_network_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_address(*_: object) -> NoReturn:
        raise socket.gaierror("name or service not known")

    for variable in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(variable, raising=False)
        monkeypatch.delenv(variable.upper(), raising=False)
    monkeypatch.setattr(socket, "getaddrinfo", no_address)
    with pytest.raises(BadInput) as caught:
        read_splits(HUB, tmp_path, "cifar10")
    assert str(caught.value) == UNREACHABLE


def test_a_failed_download_is_the_same_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, cache_dir: str) -> NoReturn:
        raise ConnectionError(cache_dir)

    monkeypatch.setattr(datasets, "load_dataset", broken)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: [])
    with pytest.raises(BadInput) as caught:
        read_splits(HUB, tmp_path, "cifar10")
    assert str(caught.value) == UNREACHABLE


def test_progress_bars_are_as_before(tmp_path: Path) -> None:
    path = tmp_path / "train-0.parquet"
    path.write_bytes(b"not Parquet")
    assert not datasets.are_progress_bars_disabled()
    with pytest.raises(BadInput) as caught:
        read_splits(Folder("own", (path,), (path,)), tmp_path / "arrow", "own")
    assert str(caught.value) == (
        f"dataset=own: files in {tmp_path} cannot be read; need Parquet with image and label"
    )
    assert not datasets.are_progress_bars_disabled()


def test_missing_columns_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "train-0.parquet"
    datasets.Dataset.from_dict({"text": ["a"], "label": [0]}).to_parquet(path)
    with pytest.raises(BadInput) as caught:
        read_splits(Folder("own", (path,), (path,)), tmp_path / "arrow", "own")
    expected = "dataset=own: columns text, label: need image (or img) and label"
    assert str(caught.value) == expected


def test_a_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(BadInput) as caught:
        read_splits(HUB, tmp_path, "cifar10")
    assert str(caught.value) == "dataset=cifar10: needs pip install 'favano[data]'"
