"""Fault scripts of simulations; tests/cli/test_bad_fleets.py has bad ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from favano.timing import Fault, read_faults


def script(path: Path, *faults: tuple[str, str, str]) -> str:
    tables = (
        f'[[fault]]\nwho = "{who}"\nwhen = "{when}"\nwhat = "{what}"\n'
        for who, when, what in faults
    )
    path.write_text("".join(tables))
    return str(path)


def test_words_become_faults_in_their_order(tmp_path: Path) -> None:
    path = script(
        tmp_path / "faults.toml",
        ("node 3", "round 5", "kill"),
        ("node 3", "10.5 s", "start"),
        ("nodes 0-2", "0 s", "slow 3"),
        ("node 1", "2 s", "late 5"),
        ("node 1", "0 s", "poison -1"),
        ("node 2", "1 s", "hang"),
        ("node 2", "1 s", "continue"),
    )
    assert read_faults(path, 4, 0) == (
        Fault((3,), "leave", 0.0, 5, 1.0),
        Fault((3,), "start", 10.5, 0, 1.0),
        Fault((0, 1, 2), "slow", 0.0, 0, 3.0),
        Fault((1,), "late", 2.0, 0, 5.0),
        Fault((1,), "poison", 0.0, 0, -1.0),
        Fault((2,), "hang", 1.0, 0, 1.0),
        Fault((2,), "continue", 1.0, 0, 1.0),
    )


@pytest.mark.parametrize(("share", "count"), [("10", 5), ("0.5", 1), ("99.9", 50), ("100", 50)])
def test_parts_of_the_nodes_are_drawn_by_the_seed(tmp_path: Path, share: str, count: int) -> None:
    path = script(
        tmp_path / "faults.toml",
        (f"{share} % of nodes", "1 s", "leave"),
        (f"{share} % of nodes", "1 s", "start"),
    )
    leave, start = read_faults(path, 50, 0)
    assert leave.clients == start.clients  # the same ones come back
    assert len(set(leave.clients)) == count
    assert leave == read_faults(path, 50, 0)[0]
    if count == 5:
        assert leave.clients != read_faults(path, 50, 1)[0].clients


def test_a_smaller_part_is_within_a_larger_one(tmp_path: Path) -> None:
    path = script(
        tmp_path / "faults.toml",
        ("20 % of nodes", "1 s", "crash"),
        ("60 % of nodes", "1 s", "crash"),
    )
    few, many = read_faults(path, 20, 3)
    assert set(few.clients) < set(many.clients)
