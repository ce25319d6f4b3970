"""Events on disk: what was written is read, or refused by name."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("flwr")

from favano.errors import BadInput, WriteFailed
from favano.flower.event_file import EventFile, Mark
from favano.flower.ledger import Event, Joined, Left, Lost, RefusedUpdate, Turned, UsedUpdate

EVENTS: list[Event] = [
    Joined(0.0, 0, 2**63 + 5),
    Turned(1e-7),
    UsedUpdate(6.25, 0, 4, 5.5),
    RefusedUpdate(7.0, 1, "NaN or infinity"),
    Left(8.0, 0, "Flower's error 2: \n\u2028é"),
    Lost(9.0, 0),
]


def written(path: Path, *parts: list[Event]) -> Mark:
    file, mark = EventFile(path, print), Mark()
    for part in parts:
        mark = file.append(part)
    return mark


def test_events_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "events.jsonl"
    mark = written(path, EVENTS[:2], [], EVENTS[2:])
    assert mark.lines == len(EVENTS)
    file = EventFile(path, print)
    assert file.read(mark) == EVENTS
    more = file.append(EVENTS)
    assert EventFile(path, print).read(more) == EVENTS * 2
    assert EventFile(path, print).read(mark) == EVENTS


def test_every_byte_counts(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    mark = written(path, EVENTS)
    whole = path.read_bytes()
    for place in range(len(whole)):
        for flip in (1, 2, 4, 128, 255):
            damaged = bytearray(whole)
            damaged[place] ^= flip
            path.write_bytes(damaged)
            with pytest.raises(BadInput, match=r"events\.jsonl(:\d)?: is damaged"):
                EventFile(path, print).read(mark)
            assert path.read_bytes() == damaged  # it is kept


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: lines[:1] + lines[2:],
        lambda lines: [lines[1], lines[0], *lines[2:]],
        lambda lines: lines[:1] + lines,
        lambda lines: [],
    ],
    ids=["one is missing", "two are exchanged", "one is doubled", "none is left"],
)
def test_lines_are_where_they_were(
    change: Callable[[list[bytes]], list[bytes]], tmp_path: Path
) -> None:
    path = tmp_path / "events.jsonl"
    mark = written(path, EVENTS)
    path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))
    with pytest.raises(BadInput, match="is damaged"):
        EventFile(path, print).read(mark)


def test_what_is_torn_at_the_end_is_cut_and_what_counts_is_not(tmp_path: Path) -> None:
    """At whatever length the file ends: a checkpoint counts the first three events."""
    path = tmp_path / "events.jsonl"
    mark = written(path, EVENTS[:3])
    counted = path.stat().st_size
    written(path, EVENTS)
    whole = path.read_bytes()
    for length in range(len(whole) + 1):
        path.write_bytes(whole[:length])
        said: list[str] = []
        file = EventFile(path, said.append)
        if length < counted:
            with pytest.raises(BadInput, match="is damaged"):
                file.read(mark)
            assert path.stat().st_size == length
            continue
        assert file.read(mark) == EVENTS[:3]
        assert path.stat().st_size == length  # reading changes nothing
        more = file.append([Turned(9.5)])
        behind = length - counted
        cut = f"{path}: {behind} bytes behind the last checkpoint were cut"
        assert said == ([cut] if behind else [])
        assert EventFile(path, print).read(more) == [*EVENTS[:3], Turned(9.5)]


def test_another_federation_s_events_are_refused(tmp_path: Path) -> None:
    path, other = tmp_path / "events.jsonl", tmp_path / "others.jsonl"
    mark = written(path, EVENTS)
    written(other, [*EVENTS[:-1], Lost(9.0, 1)])
    other.replace(path)
    with pytest.raises(BadInput, match="is of another federation"):
        EventFile(path, print).read(mark)
    path.unlink()
    with pytest.raises(BadInput, match="cannot be read"):
        EventFile(path, print).read(mark)


def test_events_stay_in_memory_until_they_are_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "events.jsonl"
    file = EventFile(path, print)
    file.append(EVENTS[:1])
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        for event in EVENTS[1:3]:
            with pytest.raises(WriteFailed, match=r"events\.jsonl: could not be written: No space"):
                file.append([event])
    mark = file.append(EVENTS[3:])
    assert EventFile(path, print).read(mark) == EVENTS


def full(_: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
