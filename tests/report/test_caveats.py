from __future__ import annotations

import json
from pathlib import Path

import pytest

from favano.report import by_setting
from favano.report.caveats import caveats
from favano.report.curves import curve
from favano.report.palette import methods
from favano.report.table import finished
from favano.results import collect

from .conftest import Writer, add_participation


def lines(folder: Path) -> list[str]:
    settings = by_setting(collect([folder]))
    return caveats(settings, methods(settings))


def test_partial_missing_and_unrecorded(compared: Path) -> None:
    assert lines(compared) == [
        "FedBuff is partial: 1 of 2 seeds, at time 10 of 20. Its numbers are those so far.",
        "QuAFL is missing: no evaluation was found in its folder.",
        "FedBuff: no participation.json, so it is not known who trained the model.",
    ]


def test_nothing_is_missing(compared: Path) -> None:
    assert lines(compared / "favano") == []


def test_a_method_that_is_in_one_setting_only(tmp_path: Path, write: Writer) -> None:
    for split, algorithm in (("iid", "favano"), ("iid", "fedavg"), ("two-class", "favano")):
        folder = tmp_path / split / algorithm
        write(folder, {"algorithm": algorithm, "split": split}, [[0.1, 0.2, 0.3]], "complete")
        add_participation(folder)
    assert lines(tmp_path) == ["split two-class: FedAvg: no result folder in this setting."]


def test_divergence_refusals_and_a_lost_command(compared: Path) -> None:
    path = compared / "favano" / "summary.json"
    summary = json.loads(path.read_text())
    summary["runs"][1]["loss"] = None
    summary["runs"][0]["refused_updates"] = 3
    del summary["command"]
    path.write_text(json.dumps(summary))
    assert lines(compared / "favano") == [
        "FAVANO ended without a finite loss in seed 1.",
        "FAVANO: 3 updates with NaN or infinity refused during the run.",
        "FAVANO: the command that made it is not recorded.",
    ]


def test_seeds_that_cannot_be_paired(tmp_path: Path, write: Writer) -> None:
    ends = [0.1, 0.2, 0.3]
    for name, count in (("favano", 3), ("fedavg", 2)):
        write(tmp_path / name, {"algorithm": name}, [ends] * count, "complete")
        add_participation(tmp_path / name)
    assert lines(tmp_path) == ["FedAvg shares only 2 of 3 seeds with FAVANO."]


@pytest.mark.parametrize("what", ["loss", "variance"])
def test_a_diverged_result_says_what_is_not_finite(what: str, compared: Path) -> None:
    path = compared / "favano" / "summary.json"
    summary = json.loads(path.read_text())
    summary["status"], summary["runs"][0][what] = "diverged", None
    path.write_text(json.dumps(summary))
    (result,) = collect([compared / "favano"])
    assert (result.status, result.ended) == ("diverged", True)
    assert len(curve(result).seeds) == 3
    assert finished(result).keys() == {0, 1}
    assert lines(compared / "favano") == [
        f"FAVANO diverged: it ended without a finite {what} in seed 0."
    ]


def test_divergence_after_the_horizon(compared: Path) -> None:
    """Tables have the numbers at the horizon; the last round ended later."""
    path = compared / "favano" / "summary.json"
    summary = json.loads(path.read_text())
    summary["status"] = "diverged"
    summary["runs"][0] |= {"loss": None, "time": 25.0}
    path.write_text(json.dumps(summary))
    assert lines(compared / "favano") == ["FAVANO diverged after the horizon."]


def test_a_run_that_met_nan_says_where(compared: Path) -> None:
    path = compared / "fedbuff" / "summary.json"
    summary = json.loads((compared / "favano" / "summary.json").read_text())
    cause = "client 4: the update for server step 2, at time 14, holds NaN or infinity"
    summary["status"] = summary["runs"][0]["status"] = "partial"
    summary["runs"][0]["cause"] = cause
    path.write_text(json.dumps({**summary, "runs": summary["runs"][:1]}))
    assert f"FedBuff, seed 0, diverged: {cause}." in lines(compared)
