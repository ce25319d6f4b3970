"""Limits of the hardware, and tables from result files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
import speed_tables
from limits import NETWORKS, PERCEPTRON, RESNET20, limit, step_bytes
from torch import nn

from favano.models import build

SHAPES = {"resnet20": ((3, 32, 32), 10), "resnet18": ((3, 64, 64), 200)}
NEW = {
    "what": "new",
    "date": "2027-01-02",
    "release": "0.2",
    "running": 10.0,
    "steps_per_second": 1000.0,
    "images_per_second": 128_000.0,
    "start_up": 3.0,
    "graphs": 7,
    "capturing": 0.5,
}


@pytest.mark.parametrize("name", SHAPES)
def test_the_layers_counted_are_those_of_the_network(name: str) -> None:
    shape, classes = SHAPES[name]
    network = build(name, input_shape=shape, classes=classes)
    layers = [layer for layer in network.modules() if isinstance(layer, nn.Conv2d)]
    assert NETWORKS[name].weights == sum(layer.weight.numel() for layer in layers)


def test_limits_by_hand() -> None:
    # 2 passes over 128 x 784 bytes and 3 over 25,450 weights of 4 bytes
    assert step_bytes(PERCEPTRON, "tf32") == 2 * 128 * 784 + 3 * 4 * 25_450
    # 2 bytes of each number between two layers, and 5 passes over the weights
    assert step_bytes(RESNET20, "bf16") == 128 * 2 * RESNET20.passing + 5 * 4 * RESNET20.weights
    assert 128 * PERCEPTRON.flops == pytest.approx(13.09e6, rel=1e-3)
    # 19 convolutions of 3 x 3 and 2 of 1 x 1: 16 x 32 x 32 seven times, and so on
    activations = 16 * 32**2 * 7 + 32 * 16**2 * 7 + 64 * 8**2 * 7
    assert RESNET20.passing == 14 * activations
    bound = limit(RESNET20, "bf16")
    assert (bound.by, limit(RESNET20._replace(flops=1e12), "bf16").by) == ("memory", "products")
    assert bound.images == pytest.approx(4.3e12 / (2 * 14 * activations), rel=0.01)


def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: Mapping[str, object]) -> list[str]:
    """The rows of the GPU's table for these lines."""
    heading = {"date": "2027-01-02", "release": "0.2", "machine": {"gpu": "G"}, "command": "c"}
    (tmp_path / "gpu.json").write_text(json.dumps({**heading, "lines": lines}))
    monkeypatch.setattr(speed_tables, "RESULTS", tmp_path)
    return speed_tables.gpu().splitlines()[2:]


def test_a_rate_is_compared_with_the_limit_of_its_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row, _, note = page(tmp_path, monkeypatch, {"resnet20-bf16": NEW})
    share = f"{128_000 / limit(RESNET20, 'bf16').images:.0%}"
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[:3] == [
        "new", "10.0 s, 1,000 steps/s, 128,000 images/s", "3.0 s, 7 graphs 0.5 s"
    ]  # fmt: skip
    assert cells[4:] == [share, "0.2, 2027-01-02"]
    assert note == "Release 0.2, 2027-01-02, G: `c`."


def test_a_command_is_compared_with_its_steps_at_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    speed = limit(PERCEPTRON, "tf32").images / 128
    lines = {"favano-mnist": {"what": "run", "seconds": 20.0, "steps": round(5 * speed)}}
    row, *_ = page(tmp_path, monkeypatch, lines)
    assert "| memory: 5.0 s | 25% |" in row


def test_old_and_missing_lines_say_what_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = {"what": "old", "seconds": 3.0, "release": "0.1", "source": "by hand"}
    rows = page(tmp_path, monkeypatch, {"lstm": old, "methods": {"what": "m", "missing": "late"}})
    assert rows[0].endswith("| 0.1, by hand |")
    assert "| missing: late |" in rows[1]


def test_programs_in_jax_are_compared_network_by_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    systems = {
        "favano": {"images_per_second": {"median": 30.0, "min": 20.0, "max": 40.0}, "ratio": None},
        "jax": {
            "images_per_second": {"median": 10.0, "min": 10.0, "max": 10.0},
            "ratio": {"median": 3.0, "min": 2.0, "max": 4.0},
        },
        "fedjax": {"missing": "failed: no memory"},
    }
    document = {
        **{"date": "2027-01-02", "release": "0.3", "machine": {"gpu": "G"}, "command": "c"},
        **{"repeats": 3, "seconds": 5.0},
        "networks": {"lstm": {"label": "LSTM", "runs": 10, "systems": systems}},
    }
    (tmp_path / "peers_gpu.json").write_text(json.dumps(document))
    monkeypatch.setattr(speed_tables, "RESULTS", tmp_path)
    _, _, row, *_ = speed_tables.peers_gpu().splitlines()
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    speeds = ["30 (20..40)", "10", "3.00 (2.00..4.00)"]
    assert cells == ["LSTM", "10", *speeds, "missing: failed: no memory", ""]
