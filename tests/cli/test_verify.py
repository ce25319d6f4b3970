"""`favano verify`: one line per seed, and an exit code."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from favano.studies.request import Request
from tests.bright_rows import write_bright_rows
from tests.cli.test_cli import SHORT, Program, favano
from tests.cli.test_help import METHOD
from tests.cli.test_repeat import contents
from tests.cli.test_resume import OFTEN, interrupted
from tests.run.small import reproduce_small

__all__ = ["favano"]

FILES = (
    "all else in history.csv, model.safetensors, participation.json, spec.toml, summary.json proved"
)
FIELDS = (
    "spec.toml: run.kernels, run.engine; summary.json: favano, command, torch, kernels, processor, "
    "runs.wall_seconds; model.safetensors: favano.version"
)
UNCOVERED = f"files: {FILES}\nNot covered: {FIELDS}\n"
NOT_COMPARED = "files: not compared, since a seed differs\n"
CHANGED = "row 2 (time 70) was changed, or does not follow row 1 (time 0)"


def change(path: Path, line: int) -> None:
    """Change the loss in a line of a history."""
    lines = path.read_text().splitlines()
    cells = lines[line].split(",")
    cells[6] = "0.125"
    lines[line] = ",".join(cells)
    path.write_text("\n".join(lines) + "\n")


def test_a_run(favano: Program, tmp_path: Path) -> None:
    assert favano("run", *SHORT, "--seeds", "2", "--out", "r")[0] == 0
    before = contents(tmp_path / "r")
    proved = f"seed 0: 3 rows proved\nseed 1: 3 rows proved\n{UNCOVERED}"
    assert favano("verify", "r") == (0, proved, "")
    assert contents(tmp_path / "r") == before
    change(tmp_path / "r" / "history.csv", 5)
    said = f"seed 0: 3 rows and their digests agree\nseed 1: {CHANGED}\nNot covered: "
    code, out, err = favano("verify", "r", "--chain")
    assert (code, out[: len(said)], err) == (1, said, "")
    assert out[len(said) :] == (
        "that the runs give these rows; in summary.json all but the final numbers of the seeds; "
        "names, shapes and constant buffers in model.safetensors; participation.json; bound.csv; "
        "in spec.toml horizon, kernels, engine, device and label\n"
    )


def test_a_result_without_its_model_is_refused(favano: Program, tmp_path: Path) -> None:
    assert favano("run", *SHORT, "--out", "r")[0] == 0
    path = tmp_path / "r" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-8])
    rule = "model.safetensors; need all files of a result as they were written"
    assert favano("verify", "r") == (2, "", f"favano: results=r: holds a damaged {rule}\n")
    path.unlink()
    assert favano("verify", "r") == (2, "", f"favano: results=r: holds no {rule}\n")


def test_a_comparison_names_its_methods(favano: Program, tmp_path: Path) -> None:
    flags = ["compare", *SHORT, "--algorithms", "favano,fedavg"]
    assert favano(*flags, "--out", "c")[0] == 0
    change(tmp_path / "c" / "fedavg" / "history.csv", 2)
    code, out, err = favano("verify", "c")
    assert (code, err) == (1, "")
    assert out == (
        f"favano: favano, seed 0: 3 rows proved\nfavano: favano, files: {FILES}\n"
        f"fedavg: fedavg, seed 0: {CHANGED}\nfedavg: fedavg, {NOT_COMPARED}"
        f"Not covered: {FIELDS}; report.html\n"
    )


@pytest.mark.quick("--normalise", "--holdout 200", "--dataset mnist --data-dir data")
@pytest.mark.parametrize(
    "flags",
    [
        "--normalise",
        "--holdout 200",
        "--holdout 200 --keep best --seeds 2",
        "--data-fraction 0.4 --split iid",
        "--split shards:3",
        "--normalise --holdout 100 --data-fraction 0.5 --batch-order replacement",
        "--quantise luq --holdout 50",
        "--dataset mnist --data-dir data",
        "--dataset mnist --data-dir data --normalise --holdout 30 --split dirichlet:1",
        "--dataset data/mnist --model perceptron --batch-size 8",
    ],
)
def test_the_data_are_those_that_the_run_had(flags: str, favano: Program, tmp_path: Path) -> None:
    write_bright_rows(tmp_path / "data" / "mnist", 10, train=400, test=60)
    assert favano("run", *SHORT, *flags.split(), "--out", "r")[0] == 0
    place = ["--data-dir", "data"] if "--data-dir" in flags else []
    code, out, _ = favano("verify", "r", *place)
    assert (code, out.count(" rows proved")) == (0, 1 + ("--seeds" in flags))


def test_methods_that_share_other_data(favano: Program) -> None:
    flags = ["--algorithms", "favano,fedavg", "--seeds", "2", "--normalise", "--holdout", "100"]
    assert favano("compare", *SHORT, *flags, "--out", "c")[0] == 0
    code, out, _ = favano("verify", "c")
    assert (code, out.count(" rows proved")) == (0, 4)


def test_the_best_of_a_search(favano: Program) -> None:
    """By the command that the search prints."""
    flags = ["tune", *SHORT, "--algorithms", "fedavg", "--grid", "learning-rate=0.1,0.5"]
    (command,) = [line for line in favano(*flags, "--out", "t")[1].splitlines() if "run " in line]
    assert "--holdout" in command
    assert favano(*shlex.split(command)[1:], "--out", "r")[0] == 0
    assert favano("verify", "r")[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mnist", "cifar10", "tiny-imagenet", "femnist", "shakespeare"])
def test_real_data_sets(name: str, favano: Program, data_root: Path) -> None:
    few = ["--data-fraction", "0.005", "--split", "iid", "--batch-size", "4", "--horizon", "15"]
    few += ["--clients", "4", "--selected", "2", "--local-steps", "1", "--evaluate-every", "15"]
    few += [] if name == "shakespeare" else ["--model", "perceptron"]
    place = ["--data-dir", str(data_root)]
    assert favano("run", "--dataset", name, *few, *place, "--out", "r")[0] == 0
    code, out, _ = favano("verify", "r", *place)
    assert (code, out.splitlines()[0]) == (0, "seed 0: 2 rows proved")


def test_what_reproduce_wrote(favano: Program, tmp_path: Path) -> None:
    reproduce_small(tmp_path / "out", Request(seeds=1))
    code, out, err = favano("verify", "out")
    lines = out.splitlines()
    assert (code, err, len(lines)) == (0, "", 4 + 4 + 1)
    files = " files: all else in history.csv, spec.toml, summary.json proved"
    assert all(line.endswith((" rows proved", files)) for line in lines[:-1])
    assert lines[-1].startswith("Not covered: spec.toml: run.kernels, run.engine; summary.json: ")
    assert "cost.machine_seconds, cost.energy_wh" in lines[-1]
    assert lines[-1].endswith("; small")
    first = sorted((tmp_path / "out" / "runs").iterdir())[0]
    spec = first / "spec.toml"
    spec.write_text(spec.read_text().replace("\nlearning_rate = 0", "\nlearning_rate = 1"))
    code, out, _ = favano("verify", "out", "--chain")
    changed, *right, _ = out.splitlines()
    assert code == 1
    assert changed.startswith(f"runs/{first.name}: ")
    assert "row 1 (time 0) was changed, or does not follow this specification" in changed
    assert all(line.endswith(" agree") for line in right)


def test_runs_that_went_on_or_got_longer(
    favano: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(favano, monkeypatch, "run", *OFTEN, "--out", "r")
    code, out, _ = favano("verify", "r")
    assert (code, out.splitlines()[0]) == (0, "seed 0: 4 rows proved")
    assert out.endswith("; seed 0: why it ended; checkpoints; resume.json\n")
    assert favano("resume", "r")[0] == 0
    assert favano("run", *OFTEN, "--horizon", "160", "--seeds", "2", "--out", "r")[0] == 0
    code, out, err = favano("verify", "r")
    assert (code, err) == (0, "")
    assert out.startswith("seed 0: 9 rows proved\nseed 1: 9 rows proved\n")


def test_from_checkpoints(favano: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert favano("run", *OFTEN, "--out", "r")[0] == 0
    before = {path: path.read_bytes() for path in (tmp_path / "r").rglob("*.*")}
    code, out, err = favano("verify", "r", "--from-checkpoints")
    assert (code, err) == (0, "")
    first, files, _ = out.splitlines()
    later = "rows 1 to 7 (times 0 to 120) not proved: before its checkpoint"
    assert first == f"seed 0: 1 row proved; {later}"
    assert files == f"files: {FILES}, if its checkpoints are right"
    assert {path: path.read_bytes() for path in (tmp_path / "r").rglob("*.*")} == before
    with monkeypatch.context() as patch:
        patch.setattr("favano.run.checkpoints.__version__", "0.0")
        code, out, err = favano("verify", "r", "--from-checkpoints")
    assert (code, out) == (2, "")
    assert "made by other versions than those here; verify the result in full" in err
    for path in (tmp_path / "r" / "checkpoints").iterdir():
        path.write_bytes(b"damaged")
    out = favano("verify", "r", "--from-checkpoints")[1]
    assert out.startswith(f"seed 0: 8 rows proved\nfiles: {FILES}\n")


def test_a_method_in_a_file_must_be_the_same(favano: Program, tmp_path: Path) -> None:
    (tmp_path / "gentle.py").write_text(METHOD, encoding="utf-8")
    named = ("--algorithm", "gentle.py:Gentle")
    assert favano("run", *SHORT, *named, "--out", "r")[0] == 0
    trusted = ["verify", "r", "--trust", "gentle.py"]
    assert favano(*trusted)[:2] == (0, f"seed 0: 4 rows proved\n{UNCOVERED}")
    (tmp_path / "gentle.py").write_text(METHOD.replace("half a step", "a half"), encoding="utf-8")
    code, out, err = favano(*trusted)
    assert (code, out) == (2, "")
    assert err.endswith("\nfavano: algorithm=gentle.py:Gentle: has changed since r was made\n")


@pytest.mark.parametrize("name", ["nowhere", "."])
def test_folders_without_a_result(name: str, favano: Program) -> None:
    code, out, err = favano("verify", name)
    assert (code, out) == (2, "")
    assert err.startswith(f"favano: results={name}: ")
    assert err.count("\n") == 1
