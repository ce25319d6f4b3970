"""`favano reproduce` as people call it, on a small stand-in for MNIST."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from favano import load
from favano.run.progress import ProgressBar
from tests.bright_rows import write_bright_rows
from tests.cli.test_cli import Program, favano

__all__ = ["favano"]

QUICK = ("--scale", "0.02", "--seeds", "1", "--data-dir", "data", "--out", "out")


@pytest.fixture
def mnist(tmp_path: Path) -> Path:
    folder = tmp_path / "data" / "mnist"
    write_bright_rows(folder, 10, train=12000, test=1000)
    return folder


@pytest.mark.slow
@pytest.mark.usefixtures("mnist")
def test_a_figure_and_the_same_again(
    favano: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = favano("reproduce", "figure-mnist", *QUICK)
    assert (code, err) == (0, "")
    first, *rest = (line.split(":")[0] for line in favano.log)
    assert first == "4 runs to do, 0 already done\n"
    assert rest == [f"{10 * n} %" for n in range(11)]
    assert "FAVANO − FedBuff" in out
    assert "2 % of the simulated time and of the data" in out
    folder = tmp_path / "out" / "figure-mnist-scale-0.02"
    assert sorted(path.name for path in folder.iterdir()) == [
        "README.md", "curves.csv", "figure.pdf", "figure.png", "runs.csv",
    ]  # fmt: skip
    made: list[str] = []

    def advance(self: ProgressBar, label: str, steps: int, time: float) -> None:
        made.append(label)

    monkeypatch.setattr(ProgressBar, "advance", advance)
    code, out, err = favano("reproduce", "figure-mnist", *QUICK, "--json")
    assert (code, err, made) == (0, "", [])
    (document,) = json.loads(out)["experiments"]
    assert [run["algorithm"] for run in document["runs"]] == [
        "fedavg", "quafl", "fedbuff", "favano",
    ]  # fmt: skip
    assert all(run["status"] == "complete" and run["co2_grams"] > 0 for run in document["runs"])
    accuracies = {run["algorithm"]: [run["accuracy"]] for run in document["runs"]}
    for written in (folder, folder.parent, tmp_path):  # the figure, all output, and above
        code, out, err = favano("report", str(written), "--out", "page.html")
        assert (code, err) == (0, "")
        assert "FAVANO" in out
        assert load(written).accuracy == accuracies


@pytest.mark.slow
@pytest.mark.usefixtures("mnist")
def test_a_scaled_table_says_its_time_and_is_not_compared(favano: Program, tmp_path: Path) -> None:
    code, out, err = favano("reproduce", "table-2", *QUICK)
    assert (code, err) == (0, "")
    page = (tmp_path / "out" / "table-2-scale-0.02" / "README.md").read_text()
    for text in (out, page):
        assert "of the last model made by time 100" in " ".join(text.split())
        assert "simulated time 5000" not in text
        assert " sd" not in text.replace("mean ± sd", "")
        assert "these runs end at time 100 and the paper's at 5,000" in text
    assert (tmp_path / "out" / "table-2-scale-0.02" / "figure.png").exists()


def test_table_1_needs_no_data(favano: Program, tmp_path: Path) -> None:
    code, out, err = favano("reproduce", "table-1", "--out", "out", "--json")
    assert (code, err) == (0, "")
    (document,) = json.loads(out)["experiments"]
    assert [len(table["rows"]) for table in document["tables"]] == [5, 5, 5]
    assert "C is the mean simulated time" in (tmp_path / "out/table-1/README.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["table-7"], "favano: name=table-7: need one of "),
        (["table-2", "--scale", "0"], "favano: scale=0.0: need a number > 0, 1 at most"),
        (["table-2", "--scale", "2"], "favano: scale=2.0: need a number > 0, 1 at most"),
        (["table-2", "--seeds", "0"], "favano: seeds=0: need 1..1000"),
        (["table-2", "--device", "cuda:99"], "favano: device=cuda:99: "),
        (["table-2", "--readings", "odd"], "favano: readings=odd: unknown; need all or some of "),
        (["figure-tinyimagenet", "--readings", "odd"], "need all or some of none here"),
        (
            ["table-2", "--data-dir", "nowhere"],
            "favano: dataset=mnist: no Parquet files in nowhere",
        ),
        (
            ["femnist", "--data-dir", "nowhere"],
            "favano: dataset=femnist: no Parquet files in nowhere",
        ),
        (["table-2", "--with", "horizon"], "favano: with=horizon: need KEY=VALUE"),
        (["table-2", "--with", "horizon=-1"], "favano: horizon=-1: need greater than 0"),
        (["table-2", "--with", "precision=bf16"], "favano: precision=bf16: requires lanes"),
        (["table-2", "--pue", "0.5"], "favano: pue=0.5: need 1 or more"),
    ],
)
def test_bad_requests_are_one_sentence(
    arguments: list[str], message: str, favano: Program, tmp_path: Path
) -> None:
    code, out, err = favano("reproduce", *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("mnist")
def test_ctrl_c_shows_what_is_missing(
    favano: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def advance(self: ProgressBar, label: str, steps: int, time: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ProgressBar, "advance", advance)
    code, out, err = favano("reproduce", "figure-mnist", *QUICK)
    assert code == 130
    assert "missing" in out
    assert err == "favano: interrupted; run the same command again to continue\n"
    assert not (tmp_path / "out" / "runs").exists()


def test_a_decoded_folder_needs_neither_datasets_nor_pillow(mnist: Path) -> None:
    """A decoded folder is all that a machine without them needs."""
    program = (
        "import sys\n"
        "for name in ('datasets', 'PIL', 'flwr_datasets'): sys.modules[name] = None\n"
        "from favano.cli.app import app\n"
        "from favano.data import load\n"
        "assert len(load('mnist').train.labels) == 12000\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True,
        env={"FAVANO_DATA": str(mnist.parent), "PYTHONPATH": ":".join(sys.path), "HOME": "/"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
