from __future__ import annotations

import os
from pathlib import Path

import pytest

from favano.data.cache import Arrays
from favano.data.origins import Decoded, Folder, Hub, find
from favano.errors import BadInput


def touch(folder: Path, *names: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_bytes(b"12345")


def found_folder(name: str, data_dir: Path | None = None) -> Folder:
    origin = find(name, data_dir)
    assert isinstance(origin, Folder)
    return origin


def test_a_named_set_lies_under_its_name(tmp_path: Path) -> None:
    touch(tmp_path / "mnist", "train-1.parquet", "train-0.parquet", "test-0.parquet")
    origin = found_folder("mnist", tmp_path)
    assert [path.name for path in origin.train] == ["train-0.parquet", "train-1.parquet"]
    assert [path.name for path in origin.test] == ["test-0.parquet"]


def test_the_environment_stands_in_for_data_dir(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    touch(tmp_path / "mnist", "train-0.parquet", "test-0.parquet")
    monkeypatch.setenv("FAVANO_DATA", str(tmp_path))
    assert found_folder("mnist").train == (tmp_path / "mnist" / "train-0.parquet",)


def test_without_any_folder_the_hub_is_meant() -> None:
    assert find("tiny-imagenet", None) == Hub("tiny-imagenet", "zh-plus/tiny-imagenet", "valid")


@pytest.mark.parametrize("prefix", ["test", "validation", "valid"])
def test_a_path_is_taken_with_either_word_for_test(tmp_path: Path, prefix: str) -> None:
    touch(tmp_path / "own", "train-0.parquet", f"{prefix}-0.parquet")
    assert found_folder(str(tmp_path / "own")).test[0].name == f"{prefix}-0.parquet"


def test_the_test_set_goes_before_the_validation_set(tmp_path: Path) -> None:
    touch(tmp_path, "train-0.parquet", "validation-0.parquet", "test-0.parquet")
    assert [path.name for path in found_folder(str(tmp_path)).test] == ["test-0.parquet"]


def test_the_cache_name_changes_with_the_files(tmp_path: Path) -> None:
    touch(tmp_path / "own", "train-0.parquet", "test-0.parquet")
    path = str(tmp_path / "own")
    first = found_folder(path).cache_name
    assert first.startswith("own-")
    assert found_folder(path).cache_name == first
    later = tmp_path / "own" / "test-0.parquet"
    os.utime(later, ns=(0, later.stat().st_mtime_ns + 1))
    rewritten = found_folder(path).cache_name
    touch(tmp_path / "own", "train-1.parquet")
    assert len({first, rewritten, found_folder(path).cache_name}) == 3


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    message = (
        r"^dataset=mnits: need one of digits, mnist, cifar10, tiny-imagenet, femnist, "
        r"shakespeare, or a folder of Parquet files$"
    )
    with pytest.raises(BadInput, match=message):
        find("mnits", None)


def test_an_empty_data_dir_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as caught:
        find("mnist", tmp_path)
    assert str(caught.value) == (
        f"dataset=mnist: no Parquet files in {tmp_path / 'mnist'}; "
        "give another --data-dir or FAVANO_DATA, or neither to download from the hub"
    )


def test_a_folder_without_test_files_is_refused(tmp_path: Path) -> None:
    touch(tmp_path, "train-0.parquet")
    with pytest.raises(BadInput) as caught:
        find(str(tmp_path), None)
    assert str(caught.value) == (
        f"dataset={tmp_path}: no test-*.parquet in {tmp_path}; "
        "need train-*.parquet and test-*.parquet (or validation-*.parquet)"
    )


def test_decoded_arrays_need_nothing_else(tmp_path: Path) -> None:
    names = [f"{name}.npy" for name in Arrays._fields]
    touch(tmp_path / "mnist", *names[:-1])
    with pytest.raises(BadInput, match="no Parquet files"):
        find("mnist", tmp_path)
    touch(tmp_path / "mnist", names[-1])
    assert find("mnist", tmp_path) == Decoded(tmp_path / "mnist")
    assert find(str(tmp_path / "mnist"), None) == Decoded(tmp_path / "mnist")


def test_another_version_of_the_decoding_has_another_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    touch(tmp_path / "own", "train-0.parquet", "test-0.parquet")
    folder, hub = found_folder(str(tmp_path / "own")), Hub("mnist", "ylecun/mnist", "test")
    before = {folder.cache_name, hub.cache_name}
    monkeypatch.setattr("favano.data.origins._DECODING", "next")
    assert len(before | {folder.cache_name, hub.cache_name}) == 4
