"""The program as people call it: exit codes, streams and files."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from favano.cli import main
from favano.records import history_from_csv
from favano.run.progress import ProgressBar

SHORT = ["--clients", "10", "--selected", "3", "--local-steps", "4"]
SHORT += ["--horizon", "140", "--evaluate-every", "70"]
LOGGED = re.compile(r"(decoding .+: )?\d+ %|\d+ runs to do")


class Program:
    """Calls the command line inside this process, as a shell would."""

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.chdir(folder)
        self.monkeypatch, self.capsys = monkeypatch, capsys

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        """Exit code, standard output and standard error; lines about progress go to `log`."""
        self.monkeypatch.setattr(sys, "argv", ["favano", *arguments])
        handler = signal.getsignal(signal.SIGTERM)
        try:
            with pytest.raises(SystemExit) as ending:
                main()
        finally:
            signal.signal(signal.SIGTERM, handler)
        captured = self.capsys.readouterr()
        code = ending.value.code
        assert code is None or isinstance(code, int)
        lines = captured.err.splitlines(keepends=True)
        self.log = [line for line in lines if LOGGED.match(line)]
        said = "".join(line for line in lines if line not in self.log)
        return code or 0, captured.out, said


@pytest.fixture
def favano(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Program:
    return Program(tmp_path, monkeypatch, capsys)


def test_run_writes_a_result_folder_and_prints_one_document(
    favano: Program, tmp_path: Path
) -> None:
    code, out, err = favano("run", *SHORT, "--seeds", "2", "--out", "r", "--json")
    assert (code, err) == (0, "")
    assert [line.split(":")[0] for line in favano.log] == [f"{10 * n} %" for n in range(11)]
    document = json.loads(out)
    assert document["spec"]["clients"] == 10
    assert [run["seed"] for run in document["runs"]] == [0, 1]
    assert {"algorithm", "seed", "accuracy", "loss", "variance", "time", "server_steps"} <= set(
        document["runs"][0]
    )
    names = sorted(path.name for path in (tmp_path / "r").iterdir())
    assert names == [
        "history.csv",
        "model.safetensors",
        "participation.json",
        "spec.toml",
        "summary.json",
    ]
    history = (tmp_path / "r" / "history.csv").read_bytes()
    assert favano("run", "r/spec.toml", "--out", "again")[0] == 0
    assert (tmp_path / "again" / "history.csv").read_bytes() == history
    code, _, err = favano("run", *SHORT, "--seed", "9", "--out", "r")
    assert code == 2
    assert err.startswith("favano: out=r: already holds another run (differs in seed")
    assert (tmp_path / "r" / "history.csv").read_bytes() == history


def test_compare_and_report(favano: Program, tmp_path: Path) -> None:
    code, out, err = favano(
        "compare", *SHORT, "--algorithms", "favano,fedbuff", "--set", "fedbuff.buffer_mode=block",
        "--out", "c", "--json",
    )  # fmt: skip
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert [run["algorithm"] for run in document["runs"]] == ["favano", "fedbuff"]
    assert 'buffer_mode = "block"' in (tmp_path / "c" / "fedbuff" / "spec.toml").read_text()
    assert "buffer_mode" not in (tmp_path / "c" / "favano" / "spec.toml").read_text()
    assert (tmp_path / "c" / "report.html").stat().st_size < 6_000_000
    code, out, err = favano("report", "c", "--out", "page.html")
    assert (code, err) == (0, "")
    assert "FedBuff" in out
    assert (tmp_path / "page.html").exists()


ODD = "A [/b] :smile: [red]c"


def test_brackets_and_colons_are_shown_as_they_are(favano: Program, tmp_path: Path) -> None:
    """In labels, titles and paths, on every line of output."""
    run = ["run", *SHORT, "--label", ODD, "--optimiser", "adam", "--learning-rate", "0.01"]
    code, out, _ = favano(*run, "--out", "q [/x]")
    assert code == 0
    assert "Results: q [/x]\n" in out
    assert ODD in out
    assert favano.log[1].startswith(f"10 %: {ODD}, seed 0, time ")
    assert f"{ODD}: " in favano("plan", *SHORT, "--label", ODD)[1]
    labels = [ODD, "B"]
    tables = (f'[[method]]\nname = "fedavg"\nlabel = "{label}"\n' for label in labels)
    (tmp_path / "two.toml").write_text("".join(tables))
    code, out, _ = favano("compare", "two.toml", *SHORT, "--out", "z[/i]")
    assert code == 0
    assert "Report: z[/i]/report.html\n" in out
    assert ODD in out
    code, out, _ = favano("report", "q [/x]", "z[/i]", "--out", "y[/b].html", "--title", "[/t]")
    assert code == 0
    assert out.endswith("Report: y[/b].html\n")
    assert ODD in out
    assert "already done: q [/x] holds" in favano(*run, "--out", "q [/x]")[2]


def test_configuration_and_flags(favano: Program, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(
        'fleet.clients = 10\nclock.selected = 3\nmethod.name = "fedavg"\n'
    )
    code, out, err = favano("plan", "run.toml", "--horizon", "900", "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert set(document) == {"clients", "server_steps", "time", "absence", "audit"}
    first = document["clients"][0]
    assert {"client", "speed", "contacts", "mean_steps", "zero_steps", "mean_staleness"} < set(
        first
    )
    assert sum(client["effective_weight"] for client in document["clients"]) == pytest.approx(1)
    assert sum(c["contacts"] for c in document["clients"]) == 3 * document["server_steps"]


def test_theory_steps(favano: Program) -> None:
    law = json.loads(favano("theory", "steps", "--dataset", "mnist", "--json")[1])
    assert law["fast"] == pytest.approx(
        {"p_positive": 0.998428, "mean": 12.492906, "second_moment": 200.127210,
         "mean_inverse": 0.134833}, abs=1e-6,
    )  # fmt: skip
    assert law["slow"] == pytest.approx(
        {"p_positive": 0.740627, "mean": 2.186981, "second_moment": 10.640801,
         "mean_inverse": 0.408428}, abs=1e-6,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--selected", "99"], "favano: selected=99: need 1..clients (30)"),
        (["run", "--local-steps", "0"], "favano: local_steps=0: need greater than or equal to 1"),
        (["run", "--algorithm", "fedsgd"], "favano: algorithm=fedsgd: unknown; did you mean "),
        (
            ["run", "--seed", "9223372036854775807", "--seeds", "3"],
            "favano: seed=9223372036854775807: need at most 9223372036854775805 with seeds=3, ",
        ),
        (["run", "missing.toml"], "favano: config=missing.toml: no such file"),
        (["run", "--split", "halves"], "favano: split=halves: "),
        (["run", "--device", "cuda:99"], "favano: device=cuda:99: "),
        (["run", "--dataset", "nowhere"], "favano: dataset=nowhere: "),
        (["run", "--dataset", "own"], "dataset=own: own data can only be run from Python"),
        (["compare", "--dataset", "own"], "dataset=own: own data can only be run from Python"),
        (["run", "--model", "vgg"], "favano: model=vgg: "),
        (["run", "--clients", "3", "--selected", "2"], "favano: split=two-class: class "),
        (["run", "--clients", "2000", "--split", "iid"], "favano: split=iid: client 1437 has no"),
        (["compare", "--algorithms", "favano,favano"], "algorithms=favano: is named twice; give"),
        (["compare", "--set", "fedprox.buffer=3"], "favano: set=fedprox: not compared; need one"),
        (["compare", "--set", "buffer=3"], "favano: set=buffer=3: need METHOD.KEY=VALUE"),
        (["report", "nowhere"], "favano: results=nowhere: no such folder"),
        (["run", "--checkpoint-every", "nan"], "favano: checkpoint_every=nan: need a number >= 0"),
        (["compare", "--checkpoint-every=-1"], "checkpoint_every=-1.0: need a number >= 0"),
        (
            ["reproduce", "table-1", "--checkpoint-every", "nan"],
            "favano: checkpoint_every=nan: need a number >= 0",
        ),
        (
            ["plan", "--buffer", "50", "--algorithm", "fedbuff", "--buffer-mode", "block"],
            "buffer=50",
        ),
        (["plan", "--algorithm", "asyncfeded"], "algorithm=asyncfeded: cannot be planned"),
        (["theory", "steps", "--local-epochs", "1"], "local_epochs=1: needs the data"),
        (["run", "--local-epochs", "0"], "local_epochs=0: need greater than or equal to 1"),
        (
            ["run", "--local-epochs", "2", "--local-steps", "9"],
            "local_epochs=2: is another length of jobs than local_steps=9; remove one of them",
        ),
        (
            ["run", "--local-epochs", "2", "--batch-order", "replacement"],
            "local_epochs=2: need batch_order=epoch",
        ),
        (
            ["plan", "--local-steps", "4,5", "--clients", "3"],
            "local_steps=2 numbers: need one number for all clients, or one for each (3)",
        ),
        (["plan", "--local-steps", "4,0"], "local_steps.1=0: need greater than or equal to 1"),
        (
            ["run", "--algorithm", "asyncfeded", "--most-local-steps", "3"],
            "favano: most_local_steps=3: need at least local_steps (10)",
        ),
        (["run", "--mixing", "0"], "favano: mixing=0: is a key of fedasync, not of favano"),
        (["run", "--algorithm", "fedasync", "--mixing", "0"], "favano: mixing=0.0: need greater t"),
        (["run", "--deadline", "40"], "favano: deadline=40.0: is a key of methods with rounds, wh"),
        (["run", "--algorithm", "mine.py:Mine"], "favano: algorithm=mine.py:Mine: no such file: m"),
        (["run", "--weight-bits", "3"], "favano: weight_bits=3: requires quantise=luq"),
        (["run", "--out", ""], "favano: out=: is empty; is a shell variable not set?"),
        (["compare", "--algorithms="], "favano: algorithms=: is empty; is a shell variable"),
        (["compare", "--set", "fedavg.label=favano", "--out", ""], "favano: out=: is empty"),
        (["run", "--quantise", "luq", "--weight-bits", "7"], "weight_bits=7: need one of 2, 3, 4"),
        (["run", "--quantise", "full"], "favano: quantise=full: need none or luq"),
        (
            ["compare", "--algorithms", "favano,fedavg", "--set", "favano.quantise=luq"],
            "favano: set=quantise: must be the same for all methods that are compared",
        ),
        (
            ["theory", "advise", "--pilot", "--quantise", "luq"],
            "quantise=luq: need quantise=none, since",
        ),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(
    arguments: list[str], message: str, favano: Program, tmp_path: Path
) -> None:
    code, out, err = favano(*arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert [path.name for path in tmp_path.iterdir()] == []  # nothing half written


def test_an_unknown_flag_is_refused(favano: Program, tmp_path: Path) -> None:
    """In the words of Click, which differ from version to version."""
    code, out, err = favano("run", "--nonsense")
    assert (code, out) == (2, "")
    assert re.search("No such option:? '?--nonsense", err)
    assert [path.name for path in tmp_path.iterdir()] == []


def test_training_with_few_bits(favano: Program, tmp_path: Path) -> None:
    flags = ["--quantise", "luq", "--quantised-gradients", "weights", "--evaluate-with", "full"]
    code, out, err = favano("run", *SHORT, *flags, "--out", "few", "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    kept = {key: document["spec"][key] for key in ("quantise", "weight_bits", "evaluate_with")}
    assert kept == {"quantise": "luq", "weight_bits": 3, "evaluate_with": "full"}
    assert favano("run", "few/spec.toml", "--out", "again")[0] == 0
    first, again = (tmp_path / name / "history.csv" for name in ("few", "again"))
    assert first.read_bytes() == again.read_bytes()
    plain = json.loads(favano("run", *SHORT, "--out", "plain", "--json")[1])
    assert plain["runs"][0]["loss"] != document["runs"][0]["loss"]
    assert plain["runs"][0]["bits_up"] == document["runs"][0]["bits_up"]


def test_the_methods_of_other_authors_run_side_by_side(favano: Program) -> None:
    names = ["fedasync", "aafl", "fedfix", "scaffold", "asyncfeded", "fedprox", "fednova"]
    code, out, _ = favano(
        "compare", *SHORT, "--algorithms", ",".join(names), "--deadline", "30",
        "--at-deadline", "take", "--sample-weights", "--out", "r", "--json",
    )  # fmt: skip
    assert code == 0
    runs = json.loads(out)["runs"]
    assert [run["algorithm"] for run in runs] == names
    assert all(run["server_steps"] > 0 and run["local_steps"] > 0 for run in runs)
    assert len({run["loss"] for run in runs}) == len(names)


def test_unknown_keys_are_refused_with_the_known_ones(favano: Program, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text("clinets = 10\n")
    code, _, err = favano("run", "run.toml")
    assert code == 2
    assert "clinets=10: unknown key; did you mean clients?\n" in err


def test_divergence_ends_with_an_error_and_partial_results(favano: Program, tmp_path: Path) -> None:
    code, _, err = favano("run", *SHORT, "--learning-rate", "1e30", "--out", "r")
    assert code == 1
    assert "holds NaN or infinity and was refused" in err
    assert json.loads((tmp_path / "r" / "summary.json").read_text())["status"] == "partial"


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_keeps_partial_results(
    how: signal.Signals, favano: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal comes from outside the program, at the twelfth update."""
    heard: list[float] = []

    def advance(self: ProgressBar, label: str, steps: int, time: float) -> None:
        heard.append(time)
        if len(heard) == 11:
            os.kill(os.getpid(), how)

    monkeypatch.setattr(ProgressBar, "advance", advance)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # also in a background job
    code, out, err = favano("run", *SHORT, "--evaluate-every", "7", "--out", "r")
    signal.signal(signal.SIGINT, before)
    assert (code, out) == (130, "")
    assert "interrupted; partial results are in r" in err
    assert json.loads((tmp_path / "r" / "summary.json").read_text())["status"] == "partial"
    history = history_from_csv((tmp_path / "r" / "history.csv").read_text())
    assert [row.time for row in history] == [7.0 * k for k in range(11)]


def handles(process: int, number: signal.Signals) -> bool:
    """Whether a process has a handler for this signal."""
    status = Path(f"/proc/{process}/status")
    if not status.exists():
        pytest.skip("needs /proc to see when the program is up")
    caught = next(line for line in status.read_text().splitlines() if line.startswith("SigCgt"))
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)


def test_ctrl_c_ends_a_real_process(tmp_path: Path) -> None:
    waiting = "import signal, tomllib; tomllib.loads = lambda text: signal.pause();"
    program = f"{waiting} from favano.cli import main; main()"  # it cannot get ahead of the signal
    command = [sys.executable, "-c", program, "run", "run.toml", "--out", "r"]
    (tmp_path / "run.toml").touch()
    heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # also in a background job
    with subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, preexec_fn=heard
    ) as process:
        while not handles(process.pid, signal.SIGTERM):  # from then on it is the program's turn
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=600)
    # Python dies of the signal itself where it came while a string was executed (an import, say).
    assert process.returncode in (130, -signal.SIGINT), errors
    assert "Traceback" not in errors
    assert [path.name for path in tmp_path.iterdir()] == ["run.toml"]


def test_a_codec_that_cannot_be_is_refused_and_one_that_fails_is_named(
    favano: Program, tmp_path: Path
) -> None:
    for arguments, message in (
        (("--codec", "lattice", "--codec-bits", "0"), "codec_bits=0: need greater than or equal"),
        (("--codec-bits", "8"), "codec_bits=8: requires a codec"),
    ):
        code, out, err = favano("run", *SHORT, *arguments, "--out", "r")
        assert (code, out) == (2, "")
        assert message in err
    assert list(tmp_path.iterdir()) == []
    narrow = ("--algorithm", "quafl", "--codec", "lattice", "--codec-bits", "2")
    code, _, err = favano("run", *SHORT, *narrow, "--out", "r")
    assert code == 0
    assert "messages lay beyond the radius of the lattice and were decoded wrongly" in err
    assert favano("run", "r/spec.toml", "--out", "again")[0] == 0
    first, second = (tmp_path / name / "history.csv" for name in ("r", "again"))
    assert first.read_bytes() == second.read_bytes()


def test_help_and_version(favano: Program) -> None:
    assert "compare" in favano("--help")[1]
    assert "--fast-fraction" in favano("run", "--help")[1]
    assert favano("--version")[1].startswith("0.")


def test_clients_from_a_file(favano: Program, tmp_path: Path) -> None:
    (tmp_path / "owners.txt").write_text("\n".join(str(place % 7) for place in range(1437)))
    keys = ["--split", "file:owners.txt", "--horizon", "70", "--evaluate-every", "70"]
    code, out, _ = favano("plan", *keys, "--json")
    assert (code, len(json.loads(out)["clients"])) == (0, 7)
    code, out, _ = favano("compare", "--algorithms", "favano,fedavg", *keys, "--json")
    assert (code, json.loads(out)["spec"]["clients"]) == (0, 7)
    code, _, err = favano("run", *keys, "--clients", "8")
    assert code == 2
    assert err.strip() == "favano: clients=8: need 1..7, the clients of split=file:owners.txt"


def test_held_out_samples_are_as_many_as_asked_for(favano: Program, tmp_path: Path) -> None:
    out = tmp_path / "run"
    short = ["--data-fraction", "0.5", "--horizon", "30", "--out", str(out)]
    _, table, _ = favano("run", "--holdout", "200", *short)
    assert "on 200 held-out training samples" in " ".join(table.split())
    assert json.loads((out / "summary.json").read_text())["test_samples"] == 200
    accuracy = json.loads((out / "summary.json").read_text())["runs"][0]["accuracy"]
    assert round(200 * accuracy) == pytest.approx(200 * accuracy, abs=1e-9)
    _, own, _ = favano("run", *short[:-1], str(tmp_path / "own"))
    assert "on 180 test samples" in " ".join(own.split())  # half of digits' own
    _, mine, _ = favano("run", "--evaluate-on", "clients", *short[:-1], str(tmp_path / "mine"))
    assert "test samples" not in mine


def test_a_long_plan_says_what_it_costs(favano: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("favano.cli.plan._MANY", 2_000)
    code, _, err = favano("plan", *SHORT[:-4], "--horizon", "5e3")
    assert code == 0
    assert err == (
        "favano: planning about 2,143 jobs takes about 0 s; Ctrl-C ends it, a smaller --horizon is "
        "faster\n"
    )
