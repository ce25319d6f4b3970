"""The bar: what it says, and how seldom it is drawn."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from favano.cli.progress import decoding
from favano.run.progress import ProgressBar


def test_the_bar_tells_time_speed_and_what_is_left_a_few_times_a_second() -> None:
    now, drawn = [100.0], []
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=120)
    with ProgressBar(console, clock=lambda: now[0]) as bar:
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
    with ProgressBar(console, clock=lambda: now[0]) as bar:
        bar.begin(400)
        now[0] += 30.0
        bar.advance(odd, 100, 70.0)
    assert odd in text.getvalue()
    monkeypatch.setattr("favano.cli.progress.notes", console)
    with decoding(odd) as on_image:
        on_image(3)
    assert f"decoding {odd}, once" in text.getvalue()


@pytest.mark.parametrize("updates", [7, 10, 1000])
def test_a_line_per_tenth_where_there_is_no_terminal(updates: int) -> None:
    now, text = [100.0], io.StringIO()
    log = ProgressBar(Console(file=text, width=40), clock=lambda: now[0])
    with log:
        log.begin(2000 * updates)
        for update in range(1, updates + 1):
            now[0] += 400 / updates
            log.advance("favano, seed 3", 2000, 700.0 * update / updates)
        log.end()
    first, *lines = text.getvalue().splitlines()
    assert first == f"0 %: {2000 * updates:,} local steps to make"
    assert len(lines) == min(10, updates)
    speed = f"{5 * updates:,} steps/s"
    assert lines[-1] == f"100 %: favano, seed 3, time 700, {speed}, 0 s left"
    if updates > 7:
        assert lines[4] == f"50 %: favano, seed 3, time 350, {speed}, 3 min left"


def test_steps_that_a_cluster_lost_are_no_lines_again() -> None:
    """A machine that is lost takes steps back; they were told of before."""
    text = io.StringIO()
    log = ProgressBar(Console(file=text), clock=lambda: 0.0)
    log.begin(100)
    for label, steps in (("a", 35), ("", -35), ("a", 5), ("a", 35), ("", 60), ("", 40)):
        log.advance(label, steps, 7.0)
    told = [line.partition(",")[0] for line in text.getvalue().splitlines()]
    assert told == ["0 %: 100 local steps to make", "30 %: a", "40 %: a", "100 %: time 7"]


def test_nothing_to_do_is_no_line() -> None:
    text = io.StringIO()
    log = ProgressBar(Console(file=text))
    log.begin(0)
    log.advance("a", 0, 7.0)
    assert text.getvalue() == ""


def test_decoding_is_a_line_per_tenth_too(monkeypatch: pytest.MonkeyPatch) -> None:
    text = io.StringIO()
    monkeypatch.setattr("favano.cli.progress.notes", Console(file=text))
    with decoding("mnist") as on_image:
        for _ in range(70):
            on_image(70)
    lines = [f"decoding mnist, once: {10 * n} %" for n in range(1, 11)]
    assert text.getvalue().splitlines() == lines
