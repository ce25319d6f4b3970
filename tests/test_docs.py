"""Tables in the documentation are those of results/."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def test_tables_are_made_from_results(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = spec_from_file_location("make_tables", ROOT / "docs" / "make_tables.py")
    assert spec is not None
    assert spec.loader is not None
    program = module_from_spec(spec)
    spec.loader.exec_module(program)
    monkeypatch.setattr(sys, "argv", ["make_tables.py", "--check"])
    assert program.main() == 0, capsys.readouterr().err


def test_every_key_is_explained_or_obvious() -> None:
    """A flag of the readings page exists, so that the page cannot rot."""
    import re

    from favano.experiments import Spec

    text = (ROOT / "docs" / "readings.md").read_text()
    flags = {flag.replace("-", "_") for flag in re.findall(r"--(?:no-)?([a-z][a-z-]+)", text)}
    assert flags <= set(Spec.model_fields)
