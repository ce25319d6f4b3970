"""Where the time of a command goes."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from types import FrameType

import phases
import pytest
import typer
from measurement import Missing

import favano

PLACES = [place for parts in phases.PHASES.values() for place in parts]


@pytest.mark.parametrize(("end", "functions"), PLACES)
def test_what_the_table_names_exists(end: str, functions: tuple[str, ...]) -> None:
    """A file or a function that is renamed would count as `other`."""
    if end.startswith("triton/"):
        pytest.importorskip("triton")
    ours, others = Path(favano.__file__).parent, Path(typer.__file__).parent.parent
    files = [path for path in ours.rglob(Path(end).name) if path.match(f"*/{end}")]
    if not files:
        files = [others / end]
    assert len(files) == 1
    tree = ast.walk(ast.parse(files[0].read_text()))
    assert {node.name for node in tree if isinstance(node, ast.FunctionDef)} >= set(functions)


def frame_in(file: str, function: str) -> FrameType:
    """A frame of this function, called by one of `engine/engine.py`."""
    frame: FrameType | None = None

    def keep() -> None:
        nonlocal frame
        frame = sys._getframe(1)

    inner: dict[str, object] = {}
    exec(compile(f"def {function}(name, keep): keep()", file, "exec"), inner)
    outer: dict[str, object] = {}
    exec(compile("def step(call, *rest): call(*rest)", "/x/engine/engine.py", "exec"), outer)
    outer["step"](inner[function], "scipy.special", keep)  # type: ignore[operator]
    assert frame is not None
    return frame


def test_time_counts_for_the_innermost_function_that_is_named() -> None:
    watch = phases.Watch()
    watch.end()
    assert watch._phase(frame_in("/x/planning/planned.py", "anything")) == "plans"
    assert watch._phase(frame_in("/x/numpy/ufunc.py", "anything")) == "updates"
    assert watch._phase(frame_in(*phases._IMPORTS)) == "import scipy"
    assert watch._phase(frame_in("/x/favano/run/problem.py", "read")) == "updates"
    assert watch._phase(None) == "other"


def test_what_is_not_named_counts_for_its_function() -> None:
    watch = phases.Watch()
    watch.end()
    inner: dict[str, object] = {}
    file = Path(favano.__file__).with_name("run") / "problem.py"
    exec(compile("def read(keep): return keep()", str(file), "exec"), inner)
    found = inner["read"](lambda: watch._phase(sys._getframe()))  # type: ignore[operator]
    assert found == "run/problem.py:read"


def test_a_command_is_taken_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "phases.json"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["phases.py", "--out", str(out), "run", "--horizon", "60"])
        phases.main()
    assert "import torch" in capsys.readouterr().out
    assert out.exists()


@pytest.mark.quick("horizon")
@pytest.mark.parametrize(
    "words", [["run", "--horizon", "-1"], ["run", "--dataset", "none"]], ids=["horizon", "dataset"]
)
def test_a_command_that_fails_has_no_phases(words: list[str]) -> None:
    with pytest.raises(Missing, match=words[1][2:]):
        phases.measured(words, Path(favano.__file__).parent.parent)
