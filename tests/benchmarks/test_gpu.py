"""The lines of the GPU benchmark: what is measured, what is missing and why."""

from __future__ import annotations

import json
from pathlib import Path
from time import time

import gpu
import pytest
from lab import Lab, write_images
from measurement import Document, Missing

from favano.data import load


def fails(lab: Lab, horizon: float) -> Document:
    raise Missing("out of memory")


def breaks(lab: Lab, horizon: float) -> Document:
    raise ZeroDivisionError


def works(lab: Lab, horizon: float) -> Document:
    lab.sources["mnist"] = "synthetic"
    return {"seconds": 2 * horizon}


FAKES = {
    "long": gpu.Line("too long", works, start=100, pace=1.0, horizon=3000),
    "bad": gpu.Line("fails", fails, 1),
    "broken": gpu.Line("breaks", breaks, 1),
    "good": gpu.Line("works", works, start=1, pace=0.001, horizon=50),
}


def measured(path: Path, *words: str) -> dict[str, dict[str, object]]:
    gpu.main(["--device", "cpu", "--limit", "600", "--out", str(path), *words])
    lines: dict[str, dict[str, object]] = json.loads(path.read_text())["lines"]
    return lines


def test_lines_that_fail_or_do_not_fit_are_noted_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu, "LINES", FAKES)
    lines = measured(tmp_path / "gpu.json")
    assert list(lines) == ["long", "bad", "broken", "good"]
    assert str(lines["long"]["missing"]).startswith("not started: about 3100 s, ")
    assert (lines["bad"]["missing"], lines["broken"]["missing"]) == (
        "out of memory",
        "ZeroDivisionError",
    )
    assert (lines["good"]["seconds"], lines["good"]["horizon"]) == (100.0, 50.0)
    assert (lines["good"]["data"], lines["bad"]["data"]) == ({"mnist": "synthetic"}, {})
    out = capsys.readouterr().out
    assert "4 lines, about 3103 s on an H200, limit 600 s" in out
    assert "missing: out of memory" in out
    assert "100.0 s in all" in out


def test_a_second_call_adds_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "LINES", FAKES)
    measured(tmp_path / "gpu.json", "--only", "good")
    lines = measured(tmp_path / "gpu.json", "--only", "long,bad", "--horizon", "long=10")
    assert [lines[name].get("seconds") for name in ("good", "long", "bad")] == [100.0, 20.0, None]


def test_unknown_lines_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--only", "table-2,table-3"], ["--horizon", "table-3=5"]):
        with pytest.raises(SystemExit):
            gpu.arguments(words)
        assert "no line table-3: need some of table-2, " in capsys.readouterr().err


def test_synthetic_images_are_read_like_a_data_set(tmp_path: Path) -> None:
    write_images(tmp_path / "cifar10", "cifar10", rows=40, tests=7)
    dataset = load("cifar10", data_dir=tmp_path)
    assert (dataset.train.inputs.shape, len(dataset.test.labels)) == ((40, 3, 32, 32), 7)
    assert (dataset.classes, len(set(dataset.train.labels.tolist()))) == (10, 10)


def test_real_data_are_used_where_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real" / "mnist").mkdir(parents=True)
    monkeypatch.setenv("FAVANO_DATA", str(tmp_path / "real"))
    decoded: list[str] = []
    monkeypatch.setattr("lab.load", lambda name, data_dir: decoded.append(name))
    lab = Lab("cuda", False, time() + 10, tmp_path)
    for _ in range(2):
        assert (lab.data("mnist"), lab.sources) == (tmp_path / "real", {"mnist": "files"})
    assert decoded == ["mnist"]  # before any line is measured
    lab = Lab("cuda", True, time() + 10, tmp_path)
    assert (lab.data("mnist"), lab.sources) == (tmp_path / "data", {"mnist": "synthetic"})
    assert lab.data("mnist") == tmp_path / "data"  # written once


def test_a_cpu_has_one_precision() -> None:
    def keys(device: str) -> dict[str, str]:
        return Lab(device, False, 0.0, Path()).keys(500, precision="bf16")

    assert keys("cpu") == {"horizon": "500"}
    assert keys("cuda") == {"horizon": "500", "precision": "bf16"}


@pytest.mark.slow
def test_commands_and_runs_can_be_measured_without_a_gpu(tmp_path: Path) -> None:
    lines = measured(tmp_path / "gpu.json", "--quick", "--only", "table-2,favano-mnist,lstm")
    assert [line.get("missing") for line in lines.values()] == [None] * 3
    runs, command, network = lines.values()
    assert runs["runs"] == 12
    assert min(float(str(runs[key])) for key in ("start_up", "running", "images_per_second")) > 0
    assert str(command["command"]).startswith("favano run --dataset mnist ")
    assert (command["runs"], command["complete"]) == (1, 1)
    assert float(str(command["steps"])) > 0
    assert float(str(network["ratio"])) > 0
