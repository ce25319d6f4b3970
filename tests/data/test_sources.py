from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

from favano.data import sources
from favano.data.sources import load
from favano.errors import BadInput

from .conftest import ImageEncoder, ParquetWriter


@pytest.fixture
def own(tmp_path: Path, write_parquet: ParquetWriter, encode: ImageEncoder) -> Path:
    """A user's folder: ten grey training images of value 0, 20, ..., 180 and two test images."""
    pictures = [encode(20 * number, (4, 4), "L") for number in range(10)]
    write_parquet(tmp_path / "own" / "train-0.parquet", pictures, [n % 5 for n in range(10)])
    write_parquet(tmp_path / "own" / "validation-0.parquet", pictures[:2], [0, 1])
    return tmp_path / "own"


def test_a_folder_of_parquet_files(own: Path, tmp_path: Path) -> None:
    dataset = load(str(own), cache_dir=tmp_path / "cache")
    assert dataset.name == str(own)
    assert dataset.input_shape == (1, 4, 4)
    assert dataset.classes == 5
    assert dataset.preprocessing.scale == 255
    assert not dataset.preprocessing.augments
    assert dataset.train.inputs[:, 0, 0, 0].tolist() == list(range(0, 200, 20))


def refuse(*_: object, name: str, mode: str | None, classes: int | None) -> NoReturn:
    raise AssertionError(f"decoded {name} again as {mode}, {classes}")


def test_the_second_load_decodes_nothing(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = load(str(own), cache_dir=tmp_path / "cache")
    monkeypatch.setattr(sources, "decode", refuse)
    second = load(str(own), cache_dir=tmp_path / "cache")
    assert np.array_equal(first.train.inputs, second.train.inputs)


def test_files_that_changed_are_decoded_again(
    own: Path, tmp_path: Path, write_parquet: ParquetWriter, encode: ImageEncoder
) -> None:
    load(str(own), cache_dir=tmp_path / "cache")
    write_parquet(own / "validation-0.parquet", [encode(99, (4, 4), "L")], [4])
    assert load(str(own), cache_dir=tmp_path / "cache").test.inputs.max() == 99


def test_what_was_decoded_serves_when_its_folder_is_gone(
    own: Path,
    tmp_path: Path,
    write_parquet: ParquetWriter,
    encode: ImageEncoder,
    caplog: pytest.LogCaptureFixture,
) -> None:
    cache = tmp_path / "cache"
    load(str(own), cache_dir=cache)
    write_parquet(own / "validation-0.parquet", [encode(99, (4, 4), "L")], [4])
    first = load(str(own), cache_dir=cache)  # decoded again, since a file has changed
    assert caplog.text == ""
    shutil.rmtree(own)
    second = load(str(own), cache_dir=cache)
    assert np.array_equal(first.train.inputs, second.train.inputs)
    assert second.test.inputs.max() == 99
    assert f"{own} is gone; the data are those decoded" in caplog.text
    with pytest.raises(BadInput, match=r"^dataset=.*other: need one of "):
        load(str(tmp_path / "other"), cache_dir=cache)


def test_a_named_set_whose_folder_is_gone(
    own: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "data").mkdir()
    own.rename(tmp_path / "data" / "mnist")
    first = load("mnist", data_dir=tmp_path / "data", cache_dir=tmp_path / "cache")
    shutil.rmtree(tmp_path / "data")
    second = load("mnist", data_dir=tmp_path / "data", cache_dir=tmp_path / "cache")
    assert np.array_equal(second.train.inputs, first.train.inputs)
    assert "data/mnist is gone" in caplog.text


def test_the_default_cache_is_the_users(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = own.parent / "home"
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    load(str(own))
    assert [path.name[:4] for path in (home / "favano").iterdir()] == ["own-"]


def test_a_folder_is_normalised_by_its_own_moments(own: Path, tmp_path: Path) -> None:
    dataset = load(str(own), cache_dir=tmp_path / "cache", normalise=True)
    values = np.arange(0, 200, 20) / 255
    assert dataset.preprocessing.mean == pytest.approx((values.mean(),))
    assert dataset.preprocessing.std == pytest.approx((values.std(),))


def test_digits_take_options_too() -> None:
    dataset = load("digits", normalise=True, holdout=400, seed=5)
    assert (len(dataset.train.labels), len(dataset.test.labels)) == (1037, 400)
    assert len(dataset.preprocessing.mean) == 1


def test_a_negative_holdout_is_refused() -> None:
    with pytest.raises(BadInput, match=r"^holdout=-1: need 0 or more$"):
        load("digits", holdout=-1)


def test_missing_data_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"^dataset=mnist: no Parquet files in "):
        load("mnist", data_dir=tmp_path)


def test_importing_the_package_imports_nothing_heavy() -> None:
    heavy = "{'torch', 'datasets', 'PIL', 'flwr_datasets', 'sklearn', 'pandas'}"
    command = f"import sys, favano.data; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", command], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_mnist_from_its_files(
    data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = load("mnist", data_dir=data_root, cache_dir=tmp_path)
    assert dataset.train.inputs.shape == (60000, 1, 28, 28)
    assert dataset.test.inputs.shape == (10000, 1, 28, 28)
    counts = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(dataset.train.labels).tolist() == counts
    assert dataset.train.inputs[:6000].mean() / 255 == pytest.approx(0.1307, abs=0.002)
    assert not dataset.preprocessing.mean
    train, test = (rows.owners["writer_id"] for rows in (dataset.train, dataset.test))
    assert (len(np.unique(train)), len(np.unique(test))) == (539, 297)
    assert not set(train.tolist()) & set(test.tolist())  # no writer is in both

    monkeypatch.setattr(sources, "decode", refuse)  # the second load maps what was decoded
    held = load("mnist", data_dir=data_root, cache_dir=tmp_path, normalise=True, holdout=10000)
    assert (len(held.train.labels), len(held.test.labels)) == (50000, 10000)
    assert held.preprocessing.mean == (0.1307,)


def test_a_fraction_leaves_held_out_samples_alone() -> None:
    held, whole = load("digits", holdout=200, fraction=0.25), load("digits", holdout=200)
    assert len(held.test.labels) == 200
    assert np.array_equal(held.test.inputs, whole.test.inputs)
    assert len(held.train.labels) == pytest.approx(1237 / 4, abs=5)  # a quarter of each class


@pytest.mark.slow
def test_femnist_from_its_files(data_root: Path, tmp_path: Path) -> None:
    dataset = load("femnist", data_dir=data_root, cache_dir=tmp_path, normalise=True)
    assert dataset.train.inputs.shape == (41495, 1, 28, 28)
    assert (dataset.classes, len(dataset.test.labels)) == (62, 4763)
    train, test = (rows.owners["writer_id"] for rows in (dataset.train, dataset.test))
    assert np.unique(train).tolist() == np.unique(test).tolist() == list(range(300))
    assert (np.diff(train) >= 0).all()  # rows are in order of writer
    mean = dataset.train.inputs.mean() / 255
    assert mean == pytest.approx(dataset.preprocessing.mean[0], abs=1e-4)


@pytest.mark.slow
def test_cifar10_from_its_files(data_root: Path, tmp_path: Path) -> None:
    dataset = load("cifar10", data_dir=data_root, cache_dir=tmp_path)
    assert dataset.train.inputs.shape == (50000, 3, 32, 32)
    assert np.bincount(dataset.train.labels).tolist() == [5000] * 10
    mean = dataset.train.inputs[:5000].mean(axis=(0, 2, 3)) / 255
    assert mean == pytest.approx(dataset.preprocessing.mean, abs=0.01)


@pytest.mark.slow
def test_tiny_imagenet_from_its_files(data_root: Path, tmp_path: Path) -> None:
    dataset = load("tiny-imagenet", data_dir=data_root, cache_dir=tmp_path)
    assert dataset.input_shape == (3, 64, 64)
    assert dataset.classes == 200
    assert np.bincount(dataset.test.labels, minlength=200).tolist() == [50] * 200
    assert len(dataset.train.labels) in (66666, 100000)


@pytest.mark.parametrize("images", [1, 4, 5])
def test_moments_are_those_of_all_images_however_many_are_counted_at_once(
    images: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (images, 2, 3, 3), dtype=np.uint8)
    monkeypatch.setattr(sources, "_ROWS", 2)
    mean, deviation = sources._moments(pixels)
    np.testing.assert_allclose(mean, pixels.mean(axis=(0, 2, 3)))
    np.testing.assert_allclose(deviation, pixels.std(axis=(0, 2, 3)))
