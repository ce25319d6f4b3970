"""`make demo` prints at most a screen."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from favano.cli import demo, shell, training
from favano.planning.comparison import comparison
from favano.specification.spec import Spec
from tests.cli.test_cli import Program, favano

__all__ = ["favano"]

LINES, COLUMNS = 40, 80


def lines_on_screen(text: str) -> int:
    """Lines of plain text on a terminal, where long ones are wrapped."""
    return sum(max(1, -(-len(line) // COLUMNS)) for line in text.splitlines())


@pytest.mark.quick("2.0")
@pytest.mark.parametrize("evaluate_every", [2.0, 280.0])
def test_the_demo_is_one_screen_however_often_it_evaluates(
    evaluate_every: float, favano: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its four methods; runs are shorter here, and have from two to 141 evaluations."""

    def short(values: dict[str, object], methods: list[dict[str, object]]) -> list[Spec]:
        small = {"horizon": 280.0, "clients": 10, "selected": 3, "local_steps": 4, "seeds": 2}
        return comparison({**values, **small, "evaluate_every": evaluate_every}, methods)

    monkeypatch.setattr(demo, "comparison", short)
    for console in (shell.screen, shell.notes):
        monkeypatch.setattr(console, "_width", COLUMNS)
    code, out, err = favano("demo", "--out", "d")
    assert (code, err) == (0, "")
    assert len(favano.log) == 11  # the first, and a line per tenth
    assert 20 <= lines_on_screen(out) <= LINES - 11


def test_a_bar_leaves_nothing_on_a_terminal(
    favano: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = io.StringIO()
    terminal = Console(file=drawn, force_terminal=True, width=COLUMNS)
    monkeypatch.setattr(training, "notes", terminal)
    monkeypatch.setattr("favano.run.progress._PERIOD", 0.0)  # draws every server step
    assert favano("run", "--horizon", "60", "--out", "r")[0] == 0
    assert drawn.getvalue().count("\x1b[2K") > 5
    text = drawn.getvalue()
    assert text.count("\n") == text.count("\x1b[1A")  # the cursor goes up by a line


def test_make_prints_no_command_of_its_own() -> None:
    text = (Path(__file__).parents[2] / "Makefile").read_text()
    assert "demo: setup\n\t@$(BIN)/favano demo\n" in text
