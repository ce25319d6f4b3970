"""Examples are the same in every run of the suite, and others in `make explore`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PLANTED = """
import signal
import pytest
from hypothesis import given, strategies as st

@pytest.mark.parametrize("limit", [500])
@given(size=st.integers(0, 1000), data=st.data())
def test_two_mistakes(size, data, limit):
    assert size < limit
    if data.draw(st.booleans()) and data.draw(st.sampled_from("ab")) == "b":
        raise ValueError("of another kind")

@given(st.integers(0, 1000).map(lambda size: [object()] * size))
def test_objects(objects):
    size = len(objects)
    assert size < 2

@given(st.integers())
def test_sound(number):
    pass
"""
STOPPED = """
@given(st.integers())
def test_stopped(number):
    signal.raise_signal(signal.SIGINT)
"""
FINDS = """
test_planted.py::test_two_mistakes[500]
@example(size=500, data=Drawn())  # AssertionError: assert 500 < 500

test_planted.py::test_two_mistakes[500]
@example(size=0, data=Drawn(True, 'b'))  # ValueError: of another kind

test_planted.py::test_objects
@reproduce_failure(...)  # AssertionError: assert 2 < 2

600 examples of {} tests, 3 finds
"""
SAME = """
import sys
from hypothesis import given, strategies as st
from tests.examples import fix_examples

fix_examples()
__import__(sys.argv[1])

@given(st.integers(), st.text())
def whatever(number, text):
    print([number, text])

whatever()
"""


@pytest.mark.parametrize(("then", "tests", "code"), [("", 3, 1), (STOPPED, 4, 2)])
def test_exploring_goes_on_after_a_find(then: str, tests: int, code: int, tmp_path: Path) -> None:
    (tmp_path / "test_planted.py").write_text(PLANTED + then)
    command = [sys.executable, "-m", "tests.explore", str(tmp_path), "200", "seed"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    printed = re.sub(r"@reproduce_failure\(.*?\)", "@reproduce_failure(...)", result.stdout)
    assert FINDS.format(tests) in printed
    assert result.returncode == code


def test_the_examples_of_the_suite_depend_on_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "some_constants.py").write_text(f"NUMBERS = {list(range(2000, 3000))}")
    (tmp_path / "same.py").write_text(SAME)
    path = os.pathsep.join([str(ROOT), *sys.path])
    printed = [
        subprocess.run(
            [sys.executable, tmp_path / "same.py", imported],
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": path},
            capture_output=True,
            check=True,
        ).stdout
        for imported, seed in (("some_constants", "1"), ("json", "2"))
    ]
    assert printed[0] == printed[1]
    assert len(printed[0].splitlines()) == 100


def test_no_property_test_has_settings_of_its_own() -> None:
    """They would beat those of `make explore`; `examples` does not."""
    texts = {path.name: path.read_text() for path in (ROOT / "tests").rglob("test_*.py")}
    assert [name for name in texts if re.search("^@settings", texts[name], re.MULTILINE)] == []
