"""Replies on disk survive a server that is killed at any step."""

from __future__ import annotations

from pathlib import Path

import pytest

from favano.flower.journal import Head, Journal, Kept

HEAD = Head("a1", "c1", ("o1", "o2"))
PARTS = {"o1": b"\x00\x01", "o2": b"", "a1": b"head"}


def test_a_reply_is_first_a_head_and_then_whole(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    assert journal.read() == Kept({}, [], {})
    journal.begin(HEAD)
    assert journal.read() == Kept({}, [HEAD], {})
    journal.finish(HEAD, PARTS)
    assert Journal(tmp_path / "journal").read() == Kept({HEAD: PARTS}, [], {})


@pytest.mark.parametrize("name", ["c1.head", "c1.reply"])
def test_a_damaged_file_is_kept_aside(name: str, tmp_path: Path) -> None:
    journal, path = Journal(tmp_path), tmp_path / name
    journal.begin(HEAD)
    if name == "c1.reply":
        journal.finish(HEAD, PARTS)
    whole, aside = path.read_bytes(), tmp_path / f"{name}.damaged"
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 1 << place % 8
        for content in (bytes(changed), whole[:place]):
            path.write_bytes(content)
            assert journal.read() == Kept({}, [], {"c1": aside})
            assert not path.exists()
            assert aside.read_bytes() == content
    journal.keep(())
    assert aside.exists()


def test_a_damaged_reply_may_be_fetched_again(tmp_path: Path) -> None:
    """The server was killed when it had written the reply, and not yet removed its head."""
    journal = Journal(tmp_path)
    journal.finish(HEAD, PARTS)
    journal.begin(HEAD)
    assert journal.read() == Kept({HEAD: PARTS}, [], {})
    (tmp_path / "c1.reply").write_bytes(b"")
    assert journal.read() == Kept({}, [HEAD], {"c1": tmp_path / "c1.reply.damaged"})


def test_only_replies_that_are_needed_are_kept(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for number in range(4):
        journal.begin(HEAD._replace(call=f"c{number}"))
        if number % 2:
            journal.finish(HEAD._replace(call=f"c{number}"), PARTS)
    journal.keep({"c1", "c2"})
    replies, heads, _ = journal.read()
    assert [head.call for head in heads] == ["c2"]
    assert [head.call for head in replies] == ["c1"]


def test_a_name_is_not_a_path(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not a number of a message"):
        Journal(tmp_path).begin(HEAD._replace(call="../elsewhere"))
