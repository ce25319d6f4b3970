"""Tables in the documentation are those of results/."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_tables_are_made_from_results() -> None:
    program = [sys.executable, str(ROOT / "docs" / "make_tables.py"), "--check"]
    done = subprocess.run(program, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_key_is_explained_or_obvious() -> None:
    """A flag of the readings page exists, so that the page cannot rot."""
    import re

    from favano.experiments import Spec

    text = (ROOT / "docs" / "readings.md").read_text()
    flags = {flag.replace("-", "_") for flag in re.findall(r"--(?:no-)?([a-z][a-z-]+)", text)}
    assert flags <= set(Spec.model_fields)
