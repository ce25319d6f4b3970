"""Runs that end without a finite loss: in words, in valid JSON and by the exit code."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.cli.test_cli import SHORT, Program, favano

__all__ = ["favano"]

WILD = ["--learning-rate", "1e25", "--non-finite", "skip"]


def strictly(text: str) -> dict[str, object]:
    """JSON as the standard has it: without NaN and infinity."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    document = json.loads(text, parse_constant=refuse)
    assert isinstance(document, dict)
    return document


def test_a_diverged_run_says_so(favano: Program, tmp_path: Path) -> None:
    code, out, err = favano("run", *SHORT, *WILD, "--out", "r", "--json")
    assert code == 1
    assert err == (
        "favano: favano diverged: the loss is not finite; lower the learning rate; results are in r"
        "\n"
    )
    document = strictly(out)
    assert document["status"] == "diverged"
    (run,) = document["runs"]  # type: ignore[misc]
    assert (run["status"], run["loss"]) == ("diverged", None)  # type: ignore[has-type]
    for name in ("summary.json", "participation.json"):
        strictly((tmp_path / "r" / name).read_text())
    assert strictly((tmp_path / "r" / "summary.json").read_text())["status"] == "diverged"
    code, out, err = favano("run", *SHORT, *WILD, "--out", "r")  # finished, so not trained again
    assert code == 1
    assert err.startswith(
        "favano: already done: r holds a run with these settings; --force repeats it\n"
    )
    assert "diverged: the loss is not finite" in err
    assert "diverged" in out
    assert favano("report", "r", "--out", "page.html")[0] == 0
    page = (tmp_path / "page.html").read_text()
    assert '<span class="badge badge-diverged">diverged</span>' in page
    assert "FAVANO diverged: the loss is not finite; lower the learning rate." in page


def test_a_comparison_of_which_one_diverged(favano: Program, tmp_path: Path) -> None:
    flags = ["--algorithms", "favano,fedavg", "--set", "favano.learning_rate=1e25"]
    flags += ["--non-finite", "skip", "--seeds", "2", "--out", "c"]
    code, out, err = favano("compare", *SHORT, *flags, "--json")
    assert code == 1
    assert err == (
        "favano: favano diverged in 2 of 2 seeds: the loss is not finite; lower the learning rate; "
        "results are in c/favano\n"
    )
    document = strictly(out)
    assert document["status"] == "diverged"
    ends = [run["status"] for run in document["runs"]]  # type: ignore[attr-defined]
    assert ends == ["diverged", "diverged", "complete", "complete"]
    page = (tmp_path / "c" / "report.html").read_text()
    header = page[: page.index("</header>")]
    assert "<strong>Diverged:</strong> 1 of 2 results." in header
    assert "partial" not in header.partition("</h1>")[0].partition("<h1>")[2]
    assert "Not ranked: FAVANO (diverged)." in page


def test_a_run_that_nan_ended_says_where_on_its_page(favano: Program, tmp_path: Path) -> None:
    flags = [
        "--algorithm",
        "fedprox",
        "--learning-rate",
        "1e25",
        "--local-steps",
        "20",
        "--out",
        "r",
    ]
    code, _, err = favano("run", *SHORT, *flags)
    assert code == 1
    cause = r"client [\d, ]+: the update for server step 1, at time \d+, holds NaN or infinity"
    assert re.search(rf"fedprox, seed 0, {cause} and was refused; lower", err)
    assert favano("report", "r", "--out", "page.html")[0] == 0
    page = (tmp_path / "page.html").read_text()
    assert re.search(rf"FedProx diverged: {cause}\.", page)
    assert "not finite" not in page
    assert "carry" not in page
