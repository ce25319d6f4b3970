"""The drawings of the documentation are those that their program draws from today's results."""

from pathlib import Path

import make_drawings
import pytest


def test_drawings_are_made_from_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    committed = make_drawings.IMAGES
    monkeypatch.setattr(make_drawings, "IMAGES", tmp_path)
    make_drawings.main()
    drawn = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    assert len(drawn) == 7
    for name, drawing in drawn.items():
        assert (committed / name).read_text(encoding="utf-8") == drawing, f"{name}: draw it anew"
