"""A policy that nobody here wrote, from a file: by every command, and from Python."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import pytest

import favano
from favano.cli import main

ROUND_ROBIN = '''"""Round robin over the clients that were asked longest ago."""

import favano


class RoundRobin(favano.Policy):
    """Every `pause`, the clients that were asked longest ago; what has come by then is used."""

    selected: int = favano.option(3, "clients asked per tick", symbol="s")
    pause: float = favano.option(7.0, "time between ticks")
    fails: str = favano.option("", "what goes wrong")

    def start(self, seed):
        self.tick, self.waiting, self.here = 1, [], []

    def join(self, client, now):
        self.waiting.append(client)

    def leave(self, client, now):
        self.waiting = [other for other in self.waiting if other != client]

    def receive(self, update, now):
        if self.fails == "receive":
            raise LookupError("no place\\nfor it")
        self.here.append(update)
        self.waiting.append(update.client)

    def wakes(self):
        return self.tick * self.pause

    def act(self, now):
        if self.fails == "act":
            return 3
        if now < self.wakes():
            return None
        self.tick += 1
        use, self.here = self.here, []
        asked, self.waiting = self.waiting[: self.selected], self.waiting[self.selected :]
        return favano.Action(use=use or None, dispatch=[favano.Dispatch(one) for one in asked])
'''
OWN = "mine.py:RoundRobin"
SMALL = ["--dataset", "digits", "--clients", "6", "--local-steps", "3", "--horizon", "60"]
SMALL += ["--kernels", "native", "--step-law", "deterministic", "--fast-fraction", "1"]
SMALL += ["--fast-mean", "1"]  # a job takes 3
FEDAVG = ["--algorithm", "fedavg", "--policy", OWN]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(ROUND_ROBIN)


def call(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """The exit code of a command."""
    monkeypatch.setattr("sys.argv", ["favano", *arguments])
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def test_it_is_planned_run_and_proved(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = [*FEDAVG, "--pause", "5", *SMALL]
    assert call(monkeypatch, "plan", *own, "--json") == 0
    planned = json.loads(capsys.readouterr().out)
    # Three at a time, from time 5 on, each of which answers after 3: used by 11 ticks, 10 to 60.
    assert planned["server_steps"] == 11
    assert sorted(client["contacts"] for client in planned["clients"]) == [5, 5, 5, 6, 6, 6]
    assert call(monkeypatch, "run", *own, "--out", "one") == 0
    text = Path("one/spec.toml").read_text()
    assert f'[policy]\nname = "{OWN}"\npause = 5.0\n' in text
    assert "selected = 3\n" in text  # the policy's own default is the run's
    capsys.readouterr()
    assert call(monkeypatch, "verify", "one") == 2
    assert "policy=mine.py:RoundRobin: would be executed" in capsys.readouterr().err
    assert call(monkeypatch, "verify", "one", "--trust", "mine.py") == 0
    assert "proved" in capsys.readouterr().out
    assert call(monkeypatch, "run", *own, "--pause", "6", "--out", "one") == 2
    assert "differs in policy" in capsys.readouterr().err
    Path("mine.py").write_text(ROUND_ROBIN + "# a remark\n")
    assert call(monkeypatch, "run", *own, "--out", "one") == 2
    assert "another version of roundrobin" in capsys.readouterr().err
    assert call(monkeypatch, "verify", "one", "--trust", "mine.py") == 2
    assert "mine.py:RoundRobin: has changed since" in capsys.readouterr().err


def test_methods_are_compared_under_it_and_under_variants_of_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("sweep.toml").write_text(
        f"""[problem]
dataset = "digits"
[fleet]
clients = 6
fast_fraction = 1.0
fast_mean = 1.0
step_law = "deterministic"
[training]
local_steps = 3
[run]
horizon = 60
[policy]
name = "{OWN}"
selected = 2
[[method]]
name = "fedavg"
[[method]]
name = "fedavg"
policy = {{ name = "{OWN}", pause = 20 }}
[[method]]
name = "fedavg"
policy = {{ name = "windowed", period = 20 }}
[[method]]
name = "fedbuff"
"""
    )
    assert call(monkeypatch, "compare", "sweep.toml", "--json", "--out", "two") == 0
    told = capsys.readouterr()
    steps = {run["algorithm"]: run["server_steps"] for run in json.loads(told.out)["runs"]}
    assert steps == {
        "FedAvg (RoundRobin, pause=7.0)": 7,
        "FedAvg (RoundRobin, pause=20.0)": 2,
        "FedAvg (Windowed)": 3,
        "fedbuff": 7,
    }
    assert "sweep.toml names mine.py" in told.err  # which is executed
    shared = ["--algorithms", "fedavg,fedbuff", "--policy", OWN, *SMALL, "--json"]
    assert call(monkeypatch, "compare", *shared, "--set", "fedbuff.pause=20") == 0
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert [run["server_steps"] for run in runs] == [7, 2]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--algorithm", "scaffold"], "policy=RoundRobin: scaffold aggregates what its own policy"),
        (
            ["--algorithm", "favano", "--weights", "exact"],
            "weights=exact: cannot be known with policy RoundRobin",
        ),
        (["--algorithm", "fedbuff", "--buffer", "3"], "buffer=3: is read by the policy of fedbuff"),
        (["--deadline", "9"], "deadline=9.0: is not an option of policy RoundRobin"),
        (["--policy", "mine.py:RoundRobbin"], "mine.py holds RoundRobin; need mine.py:NAME"),
        (["--policy", "bufered"], "policy=bufered: unknown; did you mean buffered?"),
        (["--policy", "windowed", "--selected", "2"], "selected=2: has no effect with Windowed"),
        (["--pause", "soon"], "pause=soon: need a valid number"),
        (["--paus", "3"], "No such option"),
        (["--fails", "act"], "policy=RoundRobin: act returns 3; need a favano.Action or None"),
        (["--fails", "receive"], "policy=RoundRobin: raises LookupError: no place"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(
    flags: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert call(monkeypatch, "plan", *FEDAVG, *SMALL, *flags) == 2
    told = capsys.readouterr().err
    assert said in told
    assert "Traceback" not in told


def test_it_is_an_object_in_python() -> None:
    sys.path.insert(0, str(Path.cwd()))
    policy = import_module("mine").RoundRobin(selected=2, pause=10.0)
    keys = {"horizon": 60, "local_steps": 3, "clients": 6}
    result = favano.simulate("fedavg", "digits", policy=policy, **keys)  # type: ignore[arg-type]
    assert result.runs[0].server_steps == 5
    assert result.spec.clock.selected == 2
    named = favano.compare(["fedavg", "fedprox"], policy=OWN, pause=10.0, selected=2, **keys)  # type: ignore[arg-type,call-arg]
    models = [[row.model_digest for row in of.rows] for of in (result, named.results[0])]
    assert models[0] == models[1]
    ours = favano.plan("favano", policy=policy, **keys)  # type: ignore[arg-type]
    assert ours.schedule.updates == 5
    assert ours.audit is not None
    with pytest.raises(favano.BadInput, match=r"selected=4: is an option of the policy"):
        favano.plan("fedavg", policy=policy, selected=4)


@pytest.mark.slow
def test_a_killed_run_goes_on_under_it() -> None:
    """From its last checkpoint, to the same bits as a run that nobody killed."""
    command = [sys.executable, "-m", "favano"]
    run = ["run", *FEDAVG, *SMALL, "--horizon", "600", "--evaluate-every", "20"]
    killed = [*command, *run, "--checkpoint-every", "0", "--out", "killed"]
    with subprocess.Popen(killed, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None and not list(Path("killed").glob("**/*.checkpoint")):
            time.sleep(0.01)
        process.kill()
    assert not Path("killed/summary.json").exists()
    resume = [*command, "resume", "killed"]
    refused = subprocess.run(resume, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "add --trust mine.py" in refused.stderr
    resumed = subprocess.run(
        [*resume, "--trust", "mine.py"], capture_output=True, text=True, check=True
    )
    assert "goes on at time" in resumed.stderr
    subprocess.run([*command, *run, "--out", "whole"], capture_output=True, check=True)
    for name in ("history.csv", "model.safetensors", "spec.toml"):
        assert Path("killed", name).read_bytes() == Path("whole", name).read_bytes()
