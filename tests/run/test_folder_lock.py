"""One process at a time: whoever comes second is refused, and a lock never outlives its process."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from subprocess import PIPE, Popen

import pytest

from favano.errors import BadInput
from favano.run.folder_lock import folder_lock, is_locked

pytest.importorskip("fcntl")

HOLDER = """
import sys
from pathlib import Path
from favano.errors import BadInput
from favano.run.folder_lock import folder_lock
for line in sys.stdin:
    try:
        with folder_lock(Path(line.strip())):
            print("mine", flush=True)
            sys.stdin.readline()
        print("left", flush=True)
    except BadInput:
        print("refused", flush=True)
"""


class Other:
    """Another process, which takes a lock and leaves it when told."""

    def __init__(self) -> None:
        self.process = Popen([sys.executable, "-c", HOLDER], stdin=PIPE, stdout=PIPE, text=True)

    def tell(self, line: object) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


def test_the_second_is_refused_until_the_first_has_left(tmp_path: Path) -> None:
    other, folder = Other(), tmp_path / "new" / "folder"
    assert not is_locked(folder)
    assert other.tell(folder) == "mine"
    assert is_locked(folder)
    with pytest.raises(BadInput, match="another process is at work"), folder_lock(folder):
        raise AssertionError("has it")
    assert other.tell("leave") == "left"
    assert list(tmp_path.iterdir()) == []
    with folder_lock(folder):
        assert other.tell(folder) == "refused"
        (folder / "result").touch()
    assert [path.name for path in folder.iterdir()] == ["result"]
    other.kill()


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    other = Other()
    assert other.tell(tmp_path) == "mine"
    other.kill()
    assert not is_locked(tmp_path)
    with folder_lock(tmp_path):
        pass


def test_a_lock_file_that_is_removed_meanwhile_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first has removed it after the second has opened it."""
    opened, open_file = list[int](), os.open

    def opens(path: Path, *more: int) -> int:
        opened.append(open_file(path, *more))
        if len(opened) == 1:
            path.unlink()
        return opened[-1]

    monkeypatch.setattr(os, "open", opens)
    other = Other()
    with folder_lock(tmp_path):
        assert len(opened) == 2
        assert other.tell(tmp_path) == "refused"
    other.kill()
