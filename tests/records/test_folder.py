"""Files are read with a name for what is wrong, and written all or none."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from favano.errors import BadInput, WriteFailed
from favano.records import history_from_csv, read_file, summary_from_json, write_together


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_text_and_bytes(tmp_path: Path) -> None:
    write_together(tmp_path / "new" / "folder", {"a": "näh\n", "b": b"\x00"})
    assert contents(tmp_path / "new" / "folder") == {"a": "näh\n".encode(), "b": b"\x00"}


def test_a_failure_leaves_the_folder_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_together(tmp_path, {"a": "old"})

    def no_space(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(WriteFailed, match="No space left on device; earlier results are untouched"):
        write_together(tmp_path, {"a": "new", "b": "new"})
    assert contents(tmp_path) == {"a": b"old"}


def test_what_a_killed_process_has_left_is_removed(tmp_path: Path) -> None:
    """Of the files that are written, and not what a running process is writing."""
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    others = {f".b.{ended.pid}", f".a.{os.getppid()}", ".a.old", ".a.9" + 30 * "9"}
    for name in (f".a.{ended.pid}", *others):
        (tmp_path / name).touch()
    write_together(tmp_path, {"a": "new"})
    assert {*contents(tmp_path)} == {"a", *others}


def test_nothing_is_written_by_a_link_in_a_stranger_s_folder(tmp_path: Path) -> None:
    """Names of unfinished files can be guessed: there are only so many numbers of processes."""
    precious, folder = tmp_path / "precious", tmp_path / "folder"
    precious.write_text("precious")
    folder.mkdir()
    for name in ("a", f".a.{os.getpid()}"):
        (folder / name).symlink_to(precious)
    write_together(folder, {"a": "new"})
    assert precious.read_text() == "precious"
    assert contents(folder) == {"a": b"new"}


def test_what_cannot_be_read_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with pytest.raises(BadInput, match=rf"results={path}: cannot be read: No such file"):
        read_file(path, history_from_csv)
    path.write_bytes(b"\xff")
    with pytest.raises(BadInput, match=rf"results={path}: is damaged: 'utf-8' codec"):
        read_file(path, history_from_csv)
    path.write_text('{"status": "done", "runs": []}')
    with pytest.raises(BadInput, match=rf"results={path}: is damaged: status: Input should be"):
        read_file(path, summary_from_json)
    path.write_text("[")
    with pytest.raises(BadInput, match=rf"results={path}: is damaged: file: Invalid JSON"):
        read_file(path, summary_from_json)
