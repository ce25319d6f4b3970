from __future__ import annotations

from pathlib import Path

from rich.console import Console

from favano.report import collect, final_table

from .conftest import Writer


def printed(folder: Path, width: int = 160) -> str:
    screen = Console(width=width, color_system=None)
    with screen.capture() as text:
        screen.print(final_table(collect([folder])))
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


def test_names_are_text_and_not_markup(tmp_path: Path, write: Writer) -> None:
    write(tmp_path / "odd", {"algorithm": "[bold]x"}, [[0.1, 0.2]], "complete")
    assert "[bold]x" in printed(tmp_path)
