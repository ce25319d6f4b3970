"""`--step-law trace:FILE` from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.test_cli import Program, favano

__all__ = ["favano"]

KEYS = ("--clients", "5", "--selected", "2", "--split", "iid", "--horizon", "70")


def test_a_recorded_fleet_is_run(favano: Program, tmp_path: Path) -> None:
    """All clients make a step in every window, which rounding made likelier than certain."""
    lines = [f"{client},1" for client in range(5)]
    (tmp_path / "steps.csv").write_text("\n".join(["client,duration", *lines]))
    code, _, err = favano("run", *KEYS, "--step-law", "trace:steps.csv", "--out", "r")
    assert (code, err) == (0, "")


def test_a_plan_of_many_speeds_has_ten_rows(favano: Program, tmp_path: Path) -> None:
    lines = [f"{client},{1 + client / 10}" for client in range(40)]
    (tmp_path / "steps.csv").write_text("\n".join(["client,duration", *lines]))
    many = ("--clients", "40", "--selected", "4", "--split", "iid", "--horizon", "700")
    code, out, _ = favano("plan", *many, "--step-law", "trace:steps.csv")
    assert code == 0
    rows = [line.split()[1] for line in out.splitlines() if line.startswith("│")]
    places = ["2nd", "3rd", "4th", "5th", "6th", "7th", "8th", "9th"]
    assert rows == ["fastest", *places, "slowest"]


@pytest.mark.parametrize("content", ["", "client,duration\n", "client,duration\n0,x\n"])
@pytest.mark.filterwarnings("error")
def test_a_malformed_file_is_refused_in_one_sentence(
    favano: Program, tmp_path: Path, content: str
) -> None:
    (tmp_path / "steps.csv").write_text(content)
    code, out, err = favano("run", *KEYS, "--step-law", "trace:steps.csv", "--out", "r")
    assert (code, out) == (2, "")
    assert err.startswith("favano: step_law=trace:steps.csv: ")
    assert err.count("\n") == 1


def test_the_help_says_what_the_file_holds(favano: Program) -> None:
    _, out, _ = favano("run", "--help-all")
    assert "a CSV with the columns client and duration" in " ".join(out.split())
