"""Damaged files and random command lines: used, or refused in one sentence."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from favano.errors import BadInput, require
from tests.fuzz.cases import problem_of
from tests.fuzz.command_lines import LINES
from tests.fuzz.kinds import KINDS, Refused, command
from tests.fuzz.samples import make_samples

ROOT = Path(__file__).parents[2]
FAST = [LINES, *(name for name, kind in KINDS.items() if not kind.trains)]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits memory as Linux does")


@pytest.fixture(scope="session")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fuzz") / "samples"
    make_samples(folder)
    return folder


def problems(samples: Path, names: Sequence[str], count: int) -> list[str]:
    """What went wrong in the first cases of these kinds, made in a process of their own."""
    words = [sys.executable, "-m", "tests.fuzz.cases", str(samples), "0", str(count), *names]
    place = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    ended = subprocess.run(
        words, cwd=ROOT, env=place, capture_output=True, text=True, errors="replace", check=False
    )
    *lines, last = ended.stdout.splitlines() or [""]
    wrong = [line for line in lines if "problem" in json.loads(line)]
    if last != "done":
        wrong.append(f"the process ended in {last}: {ended.stderr[-3000:]}")
    return wrong


def test_a_few_cases_of_every_kind(samples: Path) -> None:
    assert problems(samples, FAST, 1) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_many_damaged_files(samples: Path, name: str) -> None:
    assert problems(samples, [name], 20 if KINDS[name].trains else 100) == []


@pytest.mark.slow
def test_many_command_lines(samples: Path) -> None:
    assert problems(samples, [LINES], 400) == []


def test_what_counts_as_a_problem(tmp_path: Path) -> None:
    """Otherwise the tests above could not fail."""

    def refuse(text: str, write: bool = False) -> None:
        if write:
            (tmp_path / "half").write_text("")
        raise Refused(text)

    assert (
        problem_of(lambda: require(False, "results", "a.csv", "is damaged"), "a.csv", tmp_path)
        == ""
    )
    assert "ZeroDivisionError" in problem_of(lambda: 1 / 0, "", tmp_path)
    assert "MemoryError" in problem_of(lambda: bytearray(1 << 60), "", tmp_path)
    assert problem_of(lambda: refuse("two\nlines"), "", tmp_path).startswith("not one line")
    assert problem_of(lambda: refuse("a" * 5000), "", tmp_path).startswith("a line of 5000")
    assert problem_of(lambda: refuse("bad"), "a.csv", tmp_path).startswith("does not name a.csv")
    assert problem_of(lambda: refuse("bad", write=True), "", tmp_path).startswith("left [('half'")


SLOW_CLOCK = ["--step-law", "deterministic", "--fast-mean", "1e-300", "--slow-mean", "1e-300"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--horizon", "1e15"], "horizon=1000000000000000.0: need at most 1,000,000,000 server"),
        (["--algorithm", "fedasync", "--interaction-time", "0", *SLOW_CLOCK], "server steps"),
        (["--algorithm", "fedavg", "--interaction-time", "0", *SLOW_CLOCK], "server steps"),
        (["--clients", "1000000000000"], "clients=1000000000000: need less than 2147483648"),
        (["--seed", "9" * 30], "seed=999"),
        (["--seeds", "1000000000"], "seeds=1000000000: need less than or equal to 10000"),
        (["--learning-rate", "1e300"], "learning_rate=1e300: need less than or equal to"),
        (["--label", "\udcff"], "label=\\udcff: need printable characters"),
        (["--step-law", "lognormal:1e300"], "a positive number, 5 at most"),
        (["--step-law", "trace:" + "a" * 5000], "File name too long"),
    ],
)
def test_requests_that_would_never_end_or_fail_late(words: list[str], sentence: str) -> None:
    with pytest.raises(BadInput) as refused:
        command("plan", *words)
    said = str(refused.value)
    assert sentence in said
    assert said.isprintable()
    assert len(said) < 500
