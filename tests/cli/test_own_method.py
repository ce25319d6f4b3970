"""A method in a file of the user's is treated as one of ours, by every command."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch

from favano.cli import main
from favano.methods import make_method
from favano.results import Result
from favano.run.runner import run
from favano.run.samples import load_samples, named_model
from favano.specification.spec import changed
from tests.forks import FORKS
from tests.specs import complete

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_method.py"
HALF_WAY = '''
"""HalfWay: the server goes half of the way to the mean of its clients."""

import favano


class HalfWay(favano.Method[favano.ModelState]):
    """w <- w + share mean_i (w_i - w)."""

    linear = True
    half_of: float = favano.option(0.5, "share of the way", symbol="c")
    shout: bool = favano.option(False, "does nothing")

    def policy(self):
        return self.context.rounds()

    def aggregate(self, state, updates):
        progress = (updates.end - updates.start).mean(0)
        return favano.ModelState(state.model + self.half_of * progress)
'''
GROUP = '''
"""Rounds of a fleet that is large enough."""

import favano


class Group(favano.Method):
    """w <- mean_i w_i."""

    group_size: int = favano.option(200, "clients that must exist")
    rates_of: str = favano.option("", "whatever rates returns")

    def policy(self):
        if self.group_size > self.context.clients:
            raise ValueError(f"group {self.group_size} > {self.context.clients} clients")
        return self.context.rounds()

    def aggregate(self, state, updates):
        return state._replace(model=updates.end.mean(0))

    def rates(self, schedule):
        return self.rates_of or favano.Method.rates(self, schedule)
'''
FAILS = """
import favano


class Fails(favano.Method):
    \"\"\"w <- mean_i w_i, until the third server step.\"\"\"

    def policy(self):
        return self.context.rounds()

    def aggregate(self, state, updates):
        if updates.version > 2:
            return self.nothing
        return favano.ModelState(updates.end.mean(0))
"""
SMALL = ["--clients", "6", "--selected", "2", "--local-steps", "3", "--horizon", "200"]


@pytest.fixture
def half_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "half.py").write_text(HALF_WAY)
    return "half.py:HalfWay"


def favano(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """The exit code of a command."""
    monkeypatch.setattr("sys.argv", ["favano", *arguments])
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def test_run_compare_plan_bench_and_report(
    half_way: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = ["--half-of", "0.25", "--no-shout"]
    assert favano(monkeypatch, "run", "--algorithm", half_way, *SMALL, *own, "--out", "one") == 0
    assert "HalfWay" in capsys.readouterr().out
    text = Path("one/spec.toml").read_text()
    assert 'name = "half.py:HalfWay"' in text
    assert "half_of = 0.25" in text

    algorithms = f"fedavg,{half_way}"
    assert favano(monkeypatch, "compare", "--algorithms", algorithms, *SMALL, "--json",
                  "--set", f"{half_way}.half_of=1", "--out", "two") == 0  # fmt: skip
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert [run["algorithm"] for run in runs] == ["fedavg", "halfway"]
    assert runs[0]["loss"] == pytest.approx(runs[1]["loss"], rel=1e-5)  # all of the way: FedAvg

    assert favano(monkeypatch, "plan", "--algorithm", half_way, *SMALL, "--json") == 0
    planned = json.loads(capsys.readouterr().out)
    assert sum(client["effective_weight"] for client in planned["clients"]) == pytest.approx(1)

    small = [flag for flag in SMALL if flag not in ("--horizon", "200")]
    effort = ["--seconds", "0.05", "--repeats", "1", "--json"]
    assert favano(monkeypatch, "bench", "--algorithm", half_way, *small, *effort) == 0
    assert json.loads(capsys.readouterr().out)["spec"]["algorithm"] == half_way

    assert favano(monkeypatch, "report", "one", "two", "--out", "page.html") == 0
    assert "HalfWay" in Path("page.html").read_text()

    assert favano(monkeypatch, "methods", half_way) == 0
    assert "--half-of" in capsys.readouterr().out


def test_another_version_of_the_file_is_another_run(
    half_way: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ["run", "--algorithm", half_way, *SMALL, "--out", "one"]
    assert favano(monkeypatch, *run) == 0
    assert favano(monkeypatch, *run) == 0
    assert "already done" in capsys.readouterr().err
    Path("half.py").write_text(HALF_WAY + "\n# a remark\n")
    assert favano(monkeypatch, *run) == 2
    assert "another version of halfway" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--half-off", "1"], "No such option:? '?--half-off"),
        (["--shout=no"], "Option '--shout' does not take a value"),
        (["--no-shout=true"], "Option '--no-shout' does not take a value"),
        (["--normalise=no"], "Option '--normalise' does not take a value"),  # one of ours
        (["--no-half-of", "1"], "No such option:? '?--no-half-of"),
        (["--half-of", "much"], "half_of=much: need a valid number"),
        (["--mixing", "0.3"], "mixing=0.3: is a key of fedasync, not of halfway"),
        (["--strict-ties"], "strict_ties=True: is a key of methods with polls"),
    ],
)
def test_wrong_flags_are_refused(
    half_way: str,
    flags: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert favano(monkeypatch, "run", "--algorithm", half_way, *SMALL, *flags) == 2
    assert re.search(said, capsys.readouterr().err)


@pytest.mark.parametrize(
    ("flag", "shouts"), [("--shout", True), ("--no-shout", False), ("--no_shout", False)]
)
def test_a_flag_turns_an_option_on_or_off(
    half_way: str, flag: str, shouts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ["run", "--algorithm", half_way, *SMALL, "--local-steps", "1", "--out", "one"]
    assert favano(monkeypatch, *run, flag) == 0
    assert f"shout = {str(shouts).lower()}" in Path("one/spec.toml").read_text()


@pytest.mark.parametrize(
    ("command", "option", "flag"),
    [
        ("run", 'out: str = favano.option("q", "x")', "--out"),
        ("compare", 'out: str = favano.option("q", "x")', "--out"),
        ("run", 'json: bool = favano.option(False, "x")', "--json"),
        ("plan", 'own_options: str = favano.option("q", "x")', "--own-options"),
        ("run", 'no_normalise: str = favano.option("q", "x")', "--no-normalise"),
        ("run", 'help: bool = favano.option(False, "x")', "--help"),
        ("theory bound", 'noise: float = favano.option(0.5, "x")', "--noise"),
    ],
)
def test_an_option_with_the_name_of_a_flag_is_refused(
    half_way: str,
    command: str,
    option: str,
    flag: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = 'shout: bool = favano.option(False, "does nothing")'
    Path("half.py").write_text(HALF_WAY.replace(before, option))
    naming = "--algorithms" if command == "compare" else "--algorithm"
    assert favano(monkeypatch, *command.split(), naming, half_way, *SMALL) == 2
    rule = f"has options that are flags of this command: {flag}; rename them"
    assert capsys.readouterr().err == f"favano: algorithm=halfway: {rule}\n"
    assert [path.name for path in Path().iterdir() if path.is_dir()] in ([], ["__pycache__"])


def test_an_option_is_refused_only_where_its_flag_is_taken(
    half_way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("half.py").write_text(HALF_WAY.replace("shout", "force"))
    assert favano(monkeypatch, "plan", "--algorithm", half_way, *SMALL, "--force") == 0
    assert favano(monkeypatch, "run", "--algorithm", half_way, *SMALL) == 2
    assert make_method(half_way, {"force": True}).given == {"force": True}


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "group.py").write_text(GROUP)
    return "group.py:Group"


def test_a_method_is_tried_in_the_run_that_is_asked_for(
    group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither in a smaller one, nor in that of the default keys, nor with its default options."""
    run = ["run", "--algorithm", group, "--selected", "2", "--local-steps", "1", "--horizon", "9"]
    assert favano(monkeypatch, *run, "--group-size", "10", "--clients", "60") == 0
    assert favano(monkeypatch, *run, "--clients", "201") == 0


@pytest.mark.parametrize("command", ["run", "plan"])
@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--group-size", "7"], "policy raises ValueError: group 7 > 6 clients"),
        (
            ["--group-size", "6", "--rates-of", "x"],
            "rates must return a NumPy array of shape (10,), ",
        ),
    ],
)
def test_wrong_hooks_are_refused_in_one_sentence(
    group: str,
    command: str,
    flags: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert favano(monkeypatch, command, "--algorithm", group, *SMALL, *flags) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"favano: method=group: {said}")


@pytest.mark.parametrize("command", ["run", "compare"])
def test_a_method_that_fails_says_where_and_keeps_its_rows(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("fails.py").write_text(FAILS)
    naming = {"run": ["--algorithm", "fails.py:Fails"],
              "compare": ["--algorithms", "fails.py:Fails,fedavg"]}[command]  # fmt: skip
    asked = [command, *naming, *SMALL, "--horizon", "700", "--out", "one"]
    folder = Path("one") if command == "run" else Path("one/fails")
    sentence = (
        "favano: method=fails: aggregate raises AttributeError: 'Fails' object has no attribute "
        "'nothing' (fails.py, line 13: return self.nothing); partial results are in one\n"
    )
    for flags in ([], ["--traceback"]):  # again, since the folder holds nothing whole
        assert favano(monkeypatch, *asked, *flags) == 2
        said = capsys.readouterr().err
        assert sentence in said
        assert ("Traceback" in said) == bool(flags)
        assert ("in aggregate\n    return self.nothing\n" in said) == bool(flags)
        assert json.loads((folder / "summary.json").read_text())["status"] == "partial"
        assert len((folder / "history.csv").read_text().splitlines()) > 2
    if command == "run":
        assert favano(monkeypatch, "verify", "one", "--trust", "fails.py") == 0


def test_a_method_that_fails_before_training_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("fails.py").write_text(FAILS.replace("> 2", ">= 0"))
    assert favano(monkeypatch, "run", "--algorithm", "fails.py:Fails", *SMALL, "--out", "one") == 2
    assert "(fails.py, line 13: return self.nothing)\n" in capsys.readouterr().err
    assert not Path("one").exists()


@pytest.mark.quick("Ca2fl")
@FORKS
@pytest.mark.parametrize("name", [f"{EXAMPLE}:Ca2fl", "asofed"], ids=["Ca2fl", "asofed"])
def test_loop_and_lanes_agree_to_the_bit(name: str) -> None:
    spec = complete(
        algorithm=name, clients=8, local_steps=3, horizon=400, learning_rate=0.05, batch_size=16
    )  # fmt: skip
    samples = load_samples(spec)
    model = named_model(spec, samples)

    def trained(engine: str, workers: int) -> Result:
        return run(changed(spec, {"engine": engine}), samples, model, workers=workers)

    loop = trained("loop", 1)
    assert len(loop.rows) > 2
    for workers in (1, 2):
        lanes = trained("lanes", workers)
        assert lanes.rows == loop.rows
        weights = zip(lanes.models[0].values(), loop.models[0].values(), strict=True)
        assert all(torch.equal(a, b) for a, b in weights)


def test_the_example_is_short_and_has_a_name() -> None:
    assert len(EXAMPLE.read_text().splitlines()) <= 45
    assert make_method(f"{EXAMPLE}:Ca2fl", {"buffer": 3}).name == "ca2fl"
