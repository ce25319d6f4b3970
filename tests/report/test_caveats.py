from __future__ import annotations

import json
from pathlib import Path

from favano.report import by_setting
from favano.report.caveats import caveats
from favano.report.palette import methods
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


def test_refusals_and_a_lost_command(compared: Path) -> None:
    path = compared / "favano" / "summary.json"
    summary = json.loads(path.read_text())
    summary["runs"][0]["refused_updates"] = 3
    del summary["command"]
    path.write_text(json.dumps(summary))
    assert lines(compared / "favano") == [
        "FAVANO: 3 updates with NaN or infinity refused during the run.",
        "FAVANO: the command that made it is not recorded.",
    ]


def test_seeds_that_cannot_be_paired(tmp_path: Path, write: Writer) -> None:
    ends = [0.1, 0.2, 0.3]
    for name, count in (("favano", 3), ("fedavg", 2)):
        write(tmp_path / name, {"algorithm": name}, [ends] * count, "complete")
        add_participation(tmp_path / name)
    assert lines(tmp_path) == ["FedAvg shares only 2 of 3 seeds with FAVANO."]
