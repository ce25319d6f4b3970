"""The bar: what it says, and how seldom it is drawn."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from favano.cli.progress import TerminalProgress, decoding


def test_the_bar_tells_time_speed_and_what_is_left_a_few_times_a_second() -> None:
    now, drawn = [100.0], []
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=120)
    with TerminalProgress(console, clock=lambda: now[0]) as bar:
        bar.begin(40_000)
        assert "starting" in screen.getvalue()  # before the first update
        for update in range(1000):  # ten seconds
            now[0] += 0.01
            before = screen.tell()
            bar.advance("favano, seed 3", 20, 7.0 * update)
            drawn += [update] if screen.tell() > before else []
        text = screen.getvalue()
        bar.end()
    assert 30 <= len(drawn) <= 40
    assert "favano, seed 3" in text
    assert "time 6,825" in text
    assert "2,000 steps/s" in text
    assert "0:00:11" in text  # what is left after nearly ten seconds


def test_brackets_and_colons_in_a_label_are_shown_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text, now, odd = io.StringIO(), [100.0], "A [/b] :smile: [red]c"
    console = Console(file=text, force_terminal=True, width=120, color_system=None)
    with TerminalProgress(console, clock=lambda: now[0]) as bar:
        bar.begin(400)
        now[0] += 30.0
        bar.advance(odd, 100, 70.0)
    assert odd in text.getvalue()
    monkeypatch.setattr("favano.cli.progress.notes", console)
    with decoding(odd) as on_image:
        on_image(3)
    assert f"decoding {odd}, once" in text.getvalue()


def test_a_line_per_evaluation_with_the_time_left() -> None:
    now, text = [100.0], io.StringIO()
    log = TerminalProgress(Console(file=text, width=40), clock=lambda: now[0])
    log.begin(400)
    row = {
        "method": "favano", "seed": 3, "time": 0.0, "loss": 2.31, "mae": 0.51234, "variance": 0.0,
    }  # fmt: skip
    log.evaluated(row)
    now[0] += 30.0
    log.advance("favano, seed 3", 100, 70.0)
    log.evaluated({**row, "time": 70.0, "loss": 1.5})
    assert text.getvalue().splitlines() == [
        "favano, seed 3, time 0: mae 0.5123, loss 2.31",
        "favano, seed 3, time 70: mae 0.5123, loss 1.5; 2 min left",
    ]
