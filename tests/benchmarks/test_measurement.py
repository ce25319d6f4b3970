"""Commands in processes, and result files."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from measurement import Missing, call, heading, last_document, typed_command, write


def python(program: str, timeout: float | None = None, *, accept: bool = False) -> str:
    return call([sys.executable, "-c", program], timeout, accept=lambda output: accept)


def test_a_command_says_why_it_failed() -> None:
    assert python("print(3)") == "3\n"
    with pytest.raises(Missing, match=r"^ValueError: no such thing$"):
        python("raise ValueError('no such thing')")
    with pytest.raises(Missing, match=r"^exit status 3$"):
        python("raise SystemExit(3)")
    assert python("print(4); raise SystemExit(3)", accept=True) == "4\n"


@pytest.mark.machine
def test_a_command_that_takes_too_long_is_ended_with_all_it_has_started() -> None:
    endless = "import subprocess, sys, time; subprocess.Popen(['sleep', '1000']); time.sleep(1000)"
    with pytest.raises(Missing, match="no answer within 1 s"):
        python(endless, timeout=1.0)  # would wait for the grandchild, which holds the pipe


def test_the_last_document_counts() -> None:
    assert last_document('{"a": 1}\nwords\n{"a": 2}\nmore words\n') == {"a": 2}
    with pytest.raises(Missing, match="printed no result"):
        last_document("words")


def test_a_command_is_shown_without_the_folders_of_a_machine() -> None:
    words = ["--only", "lstm", "--out", "/tmp/a.json", "--quick"]
    assert typed_command("gpu.py", words) == "python benchmarks/gpu.py --only lstm --quick"


def test_a_result_says_when_where_and_how_it_was_made(tmp_path: Path) -> None:
    write(tmp_path / "new" / "plans.json", heading("plans.py") | {"seconds": 3.0})
    document = json.loads((tmp_path / "new" / "plans.json").read_text())
    assert document["command"].startswith("python benchmarks/plans.py")
    assert set(document) == {"date", "release", "command", "machine", "versions", "seconds"}
    assert "torch" in document["versions"]
    assert list((tmp_path / "new").iterdir()) == [tmp_path / "new" / "plans.json"]
