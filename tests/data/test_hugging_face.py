from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import NoReturn

import datasets
import pytest

from favano.data.hugging_face import download
from favano.data.origins import Hub
from favano.errors import BadInput

from .conftest import ImageEncoder

HUB = Hub("cifar10", "uoft-cs/cifar10", "valid")
UNREACHABLE = (
    "dataset=cifar10: no local folder given and uoft-cs/cifar10 cannot be reached on the hub; "
    "give --data-dir or set FAVANO_DATA, or allow network access"
)


def test_the_hubs_split_becomes_the_test_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encode: ImageEncoder
) -> None:
    picture = {"bytes": encode(7, (3, 2), "RGB"), "path": None}
    table = datasets.Dataset.from_dict({"img": [picture], "label": [3], "more": ["x"]})

    def given(repository: str, cache_dir: str) -> datasets.DatasetDict:
        assert (repository, cache_dir) == ("uoft-cs/cifar10", str(tmp_path))
        return datasets.DatasetDict({"train": table, "valid": table})

    monkeypatch.setattr(datasets, "load_dataset", given)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: [])
    tables = download(HUB, tmp_path, "cifar10")
    assert sorted(tables) == ["test", "train"]
    assert tables["test"]["img"][0]["bytes"].as_py() == picture["bytes"]
    assert tables["test"]["label"].to_pylist() == [3]


def test_a_repository_may_have_no_test_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = datasets.Dataset.from_dict({"x": ["a"], "y": ["b"], "character_id": ["c"]})
    splits = datasets.DatasetDict({"train": table})
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, cache_dir: splits)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: [])
    hub = Hub("shakespeare", "flwrlabs/shakespeare", None)
    assert list(download(hub, tmp_path, "shakespeare")) == ["train"]


def test_no_network_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_address(*_: object) -> NoReturn:
        raise socket.gaierror("name or service not known")

    for variable in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(variable, raising=False)
        monkeypatch.delenv(variable.upper(), raising=False)
    monkeypatch.setattr(socket, "getaddrinfo", no_address)
    with pytest.raises(BadInput) as caught:
        download(HUB, tmp_path, "cifar10")
    assert str(caught.value) == UNREACHABLE


def test_a_failed_download_is_the_same_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, cache_dir: str) -> NoReturn:
        assert datasets.are_progress_bars_disabled()
        raise ConnectionError(cache_dir)

    monkeypatch.setattr(datasets, "load_dataset", broken)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: [])
    assert not datasets.are_progress_bars_disabled()
    with pytest.raises(BadInput) as caught:
        download(HUB, tmp_path, "cifar10")
    assert str(caught.value) == UNREACHABLE
    assert not datasets.are_progress_bars_disabled()


def test_a_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(BadInput) as caught:
        download(HUB, tmp_path, "cifar10")
    assert str(caught.value) == "dataset=cifar10: needs pip install 'favano[data]'"
