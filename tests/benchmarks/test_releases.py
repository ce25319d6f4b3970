"""This checkout beside an earlier release."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest
from commands import LINES as COMMANDS
from gpu import LINES as GPU
from plans import lines as plans
from releases import Line, Release, earlier, in_turns, in_words, sample, summary

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
DECIDING = ["commands", "gpu", "networks", "plans", "releases", "work"]


def fake(folder: Path, label: str, seconds: float) -> Release:
    """A package that prints what it is said to take."""
    (folder / label).mkdir()
    program = f"print('loading'); print('{{\"seconds\": {seconds}}}')"
    (folder / label / "timed.py").write_text(program)
    return Release(label, Path(sys.executable), str(folder / label))


def test_releases_are_measured_in_turns_each_by_its_own_sources(tmp_path: Path) -> None:
    now, before = fake(tmp_path, "now", 3.0), fake(tmp_path, "before", 2.0)
    asked: list[str] = []

    def noted(release: Release, line: Line) -> float:
        asked.append(release.label)
        return sample(release, line)

    line = Line("any", ("-m", "timed"))
    samples = in_turns([now, before], line, 2, noted)
    assert samples == {"now": [3.0, 3.0], "before": [2.0, 2.0]}
    assert asked == ["now", "before", "before", "now"]
    document = summary(samples, line)
    assert document["ratio"] == {"median": 1.5, "min": 1.5, "max": 1.5}
    assert document["slower"] is True
    assert in_words(document).endswith("time now / before 1.50 (1.50..1.50), SLOWER")


@pytest.mark.parametrize(
    ("ours", "slower"),
    [([1.2, 1.04, 1.3], False), ([1.2, 1.06, 1.3], True), ([0.5, 0.9, 1], False)],
)
def test_slower_is_what_no_repeat_contradicts(ours: list[float], slower: bool) -> None:
    document = summary({"now": ours, "before": [1.0, 1.0, 1.0]}, Line("any", ()))
    assert document["slower"] is slower


def test_of_rates_the_larger_one_is_faster() -> None:
    line = Line("any", (), more_is_better=True)
    document = summary({"now": [4.0], "before": [2.0]}, line)
    assert document["ratio"] == {"median": 0.5, "min": 0.5, "max": 0.5}


def test_a_release_that_is_not_there_is_named() -> None:
    with pytest.raises(SystemExit, match=r"--against no\.whl: need a wheel, or a folder"):
        earlier(Path("no.whl"))


def test_lines_have_names_of_their_own() -> None:
    for lines in (COMMANDS, GPU, plans()):
        assert len({(line.words, line.number) for line in lines.values()}) == len(lines)


@pytest.mark.parametrize("name", [*DECIDING, "peers/systems/favano_", "peers/systems/favano_gpu"])
def test_what_decides_between_releases_uses_public_names_alone(name: str) -> None:
    tree = ast.parse((BENCHMARKS / f"{name}.py").read_text())
    froms = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    names = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    assert not [module for module in {*froms, *names} if module and module.startswith("favano.")]
