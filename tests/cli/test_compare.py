"""`favano compare` that is cut short."""

from __future__ import annotations

from pathlib import Path

import pytest

from favano.cli.progress import TerminalProgress
from tests.cli.test_cli import SHORT, Program, favano

__all__ = ["favano"]


def test_an_interrupted_comparison_has_its_page(
    favano: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[float] = []

    def advance(self: TerminalProgress, label: str, steps: int, time: float) -> None:
        heard.append(time)
        if len(heard) == 11:
            raise KeyboardInterrupt

    monkeypatch.setattr(TerminalProgress, "advance", advance)
    flags = [*SHORT, "--evaluate-every", "7", "--algorithms", "favano,fedavg", "--out", "c"]
    code, out, err = favano("compare", *flags)
    assert (code, out) == (130, "")
    assert "report of what there is: c/report.html" in err
    page = (tmp_path / "c" / "report.html").read_text()
    assert "<h1>FAVANO and FedAvg on digits, partial</h1>" in page
    assert " of 2 results not complete." in page[: page.index("</header>")]
