from __future__ import annotations

import json
from pathlib import Path

from rich.console import Console

from favano.report import final_table
from favano.results import collect

from .conftest import Writer


def printed(folder: Path, width: int = 160) -> str:
    screen = Console(width=width, color_system=None)
    with screen.capture() as text:
        screen.print(final_table(collect([folder]), width=width))
    return text.get()


def test_every_result_has_its_line(compared: Path) -> None:
    lines = printed(compared).splitlines()
    assert any("FAVANO" in line and "75.0 ± 7.1" in line for line in lines)
    assert any("FedAvg" in line and "−20.0 ± 14.1 (2)" in line for line in lines)
    assert any("FedBuff partial" in line and "90.0 ± –" in line for line in lines)
    assert any("QuAFL missing" in line and "0 of 2" in line for line in lines)


def test_numbers_are_whole_on_a_narrow_screen(compared: Path) -> None:
    text = printed(compared, width=80)
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "−20.0 ± 14.1 (2)" in text
    assert "0.250 ± 0.071" in text


def test_no_word_is_broken_in_80_columns(tmp_path: Path, write: Writer) -> None:
    """As wide as the numbers of the demo, and with the longest names we have."""
    names = ("favano", "fedbuff", "asyncsgd-adaptive", "asyncfeded")
    for name in names:
        ends = [[0.1, 0.2, end] for end in (0.1, 0.5, 0.9, 1.0)]
        write(tmp_path / name, {"algorithm": name}, ends, "complete")
    text = printed(tmp_path, width=80)
    lines = text.splitlines()
    assert max(len(line) for line in lines) <= 80
    first = [line.split()[0] for line in lines if line.strip()]
    assert {"method", "FAVANO", "FedBuff", "AsyncSGD-", "adaptive", "AsyncFedED"} <= set(first)
    for word in ("accuracy,", "against", "FAVANO,", "points", "server", "steps", "seeds"):
        assert word in text.split(), word
    assert "0.0 ± 0.0 (4)" in text  # no number either


def test_columns_without_room_are_named(compared: Path) -> None:
    text = printed(compared, width=50)
    assert max(len(line) for line in text.splitlines()) <= 50
    assert "−20.0 ± 14.1 (2)" in text
    said = " ".join(text.split())
    assert "no room here for loss, local steps and gigabits sent" in said
    assert "no room" not in printed(compared, width=120)


def test_names_are_text_and_not_markup(tmp_path: Path, write: Writer) -> None:
    write(tmp_path / "odd", {"algorithm": "[bold]x"}, [[0.1, 0.2]], "complete")
    assert "[bold]x" in printed(tmp_path)


def test_names_in_the_caption_are_text_and_not_markup(tmp_path: Path, write: Writer) -> None:
    for name in ("A [/b] :smile: c", "B"):
        folder = write(tmp_path / name[0], {"algorithm": name}, [[0.1, 0.2]], "complete")
        summary = json.loads((folder / "summary.json").read_text())
        summary["optimiser"] = f"Adam {name[0]}"
        (folder / "summary.json").write_text(json.dumps(summary))
    assert "optimiser: A [/b] :smile: c: Adam A; B: Adam B" in printed(tmp_path)
