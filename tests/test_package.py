"""What a release says about itself, and what a shell completes."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import favano

ROOT = Path(__file__).parents[1]


def test_version_and_citation_agree() -> None:
    citation = (ROOT / "CITATION.cff").read_text()
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert f"version: {favano.__version__}\n" in citation
    newest = next(line for line in changelog.splitlines() if line.startswith("## "))
    assert newest.startswith(f"## {favano.__version__}")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f"license: {project['license']}\n" in citation
    assert project["urls"]["Paper"] in citation


@pytest.mark.quick("favano run*")
@pytest.mark.parametrize(
    ("words", "known"),
    [
        ("favano ver", ["verify"]),
        ("favano run --learning-r", ["--learning-rate"]),
        ("favano compare --buffer-m", ["--buffer-mode"]),
    ],
)
def test_shells_complete_commands_and_flags(words: str, known: list[str]) -> None:
    asked = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    code = "import sys; sys.argv[0] = 'favano'; from favano.cli import main; main()"
    result = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **asked, "_FAVANO_COMPLETE": "complete_bash"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(known) <= set(result.stdout.split())
    assert all(word.startswith(words.split()[-1]) for word in result.stdout.split())
