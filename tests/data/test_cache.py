from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest

from favano.data import cache
from favano.errors import BadInput


def write_small(folder: Path) -> None:
    for part, count in (("train", 4), ("test", 2)):
        np.save(folder / f"{part}_images.npy", np.full((count, 1, 2, 2), count, np.uint8))
        np.save(folder / f"{part}_labels.npy", np.arange(count))
    np.save(folder / "classes.npy", np.int64(4))


def entries(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_was_written_is_mapped_read_only(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "small"
    cache.ensure(folder, write_small)
    arrays = cache.read(folder)
    assert arrays.train_images.shape == (4, 1, 2, 2)
    assert arrays.test_labels.tolist() == [0, 1]
    assert arrays.classes == 4
    assert isinstance(arrays.train_images, np.memmap)
    assert not arrays.train_images.flags.writeable


def test_a_complete_cache_is_not_written_again(tmp_path: Path) -> None:
    cache.ensure(tmp_path / "small", write_small)

    def refuse(folder: Path) -> None:
        raise AssertionError(folder)

    cache.ensure(tmp_path / "small", refuse)
    assert entries(tmp_path) == ["small"]


def test_an_interrupted_decoding_leaves_nothing(tmp_path: Path) -> None:
    def interrupted(folder: Path) -> None:
        write_small(folder)
        (folder / "classes.npy").unlink()
        assert not (tmp_path / "small").exists()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.ensure(tmp_path / "small", interrupted)
    assert entries(tmp_path) == []


def test_leftovers_of_a_killed_process_are_not_read(tmp_path: Path) -> None:
    (tmp_path / ".small-0123").mkdir()
    (tmp_path / ".small-0123" / "train_images.npy").write_bytes(b"half")
    cache.ensure(tmp_path / "small", write_small)
    assert cache.read(tmp_path / "small").classes == 4


def test_two_at_once_both_end_well(tmp_path: Path) -> None:
    meeting = Barrier(2)

    def together(folder: Path) -> None:
        write_small(folder)
        meeting.wait(timeout=600)  # both have decoded before either publishes

    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(cache.ensure, tmp_path / "small", together) for _ in range(2)]
        for future in waiting:
            future.result()
    assert entries(tmp_path) == ["small"]
    assert len(entries(tmp_path / "small")) == 5


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    message = (
        r"^cache=.*file: cannot be written \(.+\); set XDG_CACHE_HOME to a folder that can be$"
    )
    with pytest.raises(BadInput, match=message):
        cache.ensure(tmp_path / "file" / "small", write_small)


def test_the_root_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.default_root() == tmp_path / "favano"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache.default_root() == tmp_path / ".cache" / "favano"
