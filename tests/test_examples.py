"""Every example is short, and says at its end what it should."""

from __future__ import annotations

import importlib
import os
import re
import runpy
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples"
FILES = sorted(FOLDER.glob("*.py"))
NEEDS = {"hugging_face_lora": ("peft", "transformers"), "loopback": ("flwr",),
         "own_data_formats": ("datasets",)}  # fmt: skip
# What each prints; those without a line are classes, which the tests of methods and policies run.
SAYS = {
    "availability": r"fedavg +\d+ lost; .*\n\n[6-9]\d% correct",
    "bit_budget": r"float32 +\d+% .* [23]\d Mbit\n8 bits +\d+% .* 2\d Mbit\n6 bits .* 2\d Mbit",
    "ffa_lora": r"FFA-LoRA +\d+%, 1,036 numbers",
    "hugging_face_lora": r"loss 3\.\d+ -> [12]\.\d+\n[\d,]+ of [\d,]+ numbers are trained",
    "own_data": r"from_pytorch +20 clients: [6-9]\d%",
    "own_data_formats": r"of_different_lengths +20 clients: [6-9]\d%",
    "regression": r"FAVANO +error 2\.0.*\nFedAvg .*\nFedBuff +error 2\.[2-9].* have 1",
    "sample_weights": r"bottomrule",
    "text": r"[4-9]\d% of the letters",
    "tuned": r"stopped at \d+\n\w+\(",
}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_example_is_short_and_says_what_it_is(file: Path) -> None:
    lines = file.read_text().splitlines()
    assert len(lines) < 60
    assert lines[0].startswith('"""')
    assert any(f"examples/{file.name}" in line for line in lines) or file.stem not in SAYS


@pytest.mark.slow
@pytest.mark.parametrize("name", SAYS)
def test_an_example_runs(name: str, tmp_path: Path) -> None:
    if missing := [each for each in NEEDS.get(name, ()) if find_spec(each) is None]:
        pytest.skip(f"needs {' and '.join(missing)}")
    result = subprocess.run(
        [sys.executable, FOLDER / f"{name}.py"],
        cwd=tmp_path,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert re.search(SAYS[name], result.stdout), result.stdout
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["comparison", "fleets"])
def test_a_notebook_runs_and_shows_what_it_makes(name: str) -> None:
    pytest.importorskip("nbclient")
    pages = importlib.import_module("notebook_pages")
    page = pages.notebook_page(name)
    assert pages.NOTEBOOKS == ["comparison", "fleets"]
    assert page.count('<div class="notebook">') == {"comparison": 2, "fleets": 3}[name]
    assert page.count("data:image/png") == (name == "comparison")
    assert page.count("```python") == (FOLDER / f"notebooks/{name}.py").read_text().count("# %%\n")
    assert "Traceback" not in page


@pytest.mark.machine
def test_the_federation_on_loopback_is_repeated(capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("flwr")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    runpy.run_path(str(FOLDER / "loopback.py"))["main"](port=port, rounds=4)
    assert "The models are equal to the bit." in capfd.readouterr().out
