"""Replies on disk survive a server that is killed at any step."""

from __future__ import annotations

from pathlib import Path

import pytest

from favano.flower.journal import Head, Journal

HEAD = Head("a1", "c1", ("o1", "o2"))
PARTS = {"o1": b"\x00\x01", "o2": b"", "a1": b"head"}


def test_a_reply_is_first_a_head_and_then_whole(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    assert journal.heads() == []
    journal.begin(HEAD)
    assert journal.heads() == [HEAD]
    assert journal.replies() == []
    journal.finish(HEAD, PARTS)
    assert journal.heads() == []
    assert Journal(tmp_path / "journal").replies() == [(HEAD, PARTS)]


def test_a_damaged_reply_is_none(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.finish(HEAD, PARTS)
    (path,) = tmp_path.glob("*.reply")
    path.write_bytes(path.read_bytes()[:-1])
    assert journal.replies() == []
    assert not path.exists()


def test_only_replies_that_are_needed_are_kept(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for number in range(4):
        journal.begin(HEAD._replace(call=f"c{number}"))
        if number % 2:
            journal.finish(HEAD._replace(call=f"c{number}"), PARTS)
    journal.keep({"c1", "c2"})
    assert [head.call for head in journal.heads()] == ["c2"]
    assert [head.call for head, _ in journal.replies()] == ["c1"]


def test_a_name_is_not_a_path(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not a number of a message"):
        Journal(tmp_path).begin(HEAD._replace(call="../elsewhere"))
