"""Which kernels a run has, and where a reader finds them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from favano.errors import BadInput
from favano.models import BatchNorm2d, build
from favano.planning.planned import plan_seeds
from favano.records import history_to_csv
from favano.results import Result, write_result
from favano.run import run_kernels as decided
from favano.run.run_kernels import possible_steps
from favano.run.runner import run, run_together
from favano.run.samples import Samples, load_samples
from favano.specification.presets import resolve
from favano.specification.spec import changed, make_spec
from favano.training import default_kernels
from favano.types import Kernels
from tests.specs import spec_of

SMALL = resolve(spec_of(clients=10, selected=3, local_steps=4, horizon=140.0, evaluate_every=35.0))


@pytest.fixture(scope="module")
def digits() -> Samples:
    return load_samples(SMALL)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A measurement finds `native`; who asked for it."""
    asked: list[str] = []

    def find(flat: object, task: object) -> Kernels:
        asked.append("asked")
        return "native"

    monkeypatch.setattr(decided, "chosen_kernels", find)
    return asked


def result(digits: Samples, **keys: object) -> Result:
    spec = changed(SMALL, keys)
    network = build("perceptron", input_shape=digits.input_shape, classes=10)
    return run(spec, digits, network, workers=1)


def test_short_runs_do_not_ask(digits: Samples, measured: list[str]) -> None:
    assert result(digits).summary.kernels == default_kernels()
    assert measured == []


def test_long_runs_do(
    digits: Samples, measured: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decided, "FEWEST", 0)
    assert result(digits).summary.kernels == "native"
    assert measured
    assert result(digits, kernels="onednn").summary.kernels == "onednn"
    assert len(measured) == 1


def test_what_is_long_does_not_depend_on_seed_or_method() -> None:
    specs = [changed(SMALL, {"algorithm": name}) for name in ("favano", "fedavg")]
    planned = [plan for spec in specs for plan in plan_seeds(changed(spec, {"seeds": 5}))]
    assert {possible_steps(plan) for plan in planned} == {140 * (7 / 2 + 3 / 16)}


@pytest.mark.slow
def test_runs_keep_their_kernels_in_a_shared_pool(digits: Samples) -> None:
    """One short and one long, or by hand: each as it is alone, with one process and with two."""
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(1, 4, 3), BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 10)
    )
    specs = [changed(SMALL, {"kernels": name}) for name in ("native", "channels-last")]
    alone = [run(spec, digits, network, workers=1) for spec in specs]
    # Were they equal, this test could not fail.
    assert history_to_csv(alone[0].rows) != history_to_csv(alone[1].rows)
    for workers in (1, 2):
        together = run_together(specs, digits, network, workers=workers)
        for single, other in zip(alone, together, strict=True):
            assert single.summary.kernels == other.summary.kernels
            assert history_to_csv(single.rows) == history_to_csv(other.rows)


def test_a_reader_sees_them(digits: Samples, tmp_path: Path) -> None:
    write_result(tmp_path, result(digits, kernels="native"), "favano run")
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["kernels"] == "native"
    assert summary["torch"]


def test_nonsense_is_refused() -> None:
    with pytest.raises(BadInput, match="kernels=fast: need"):
        make_spec({"kernels": "fast"})
    with pytest.raises(BadInput, match="kernels=native: need auto with device=cuda"):
        make_spec({"kernels": "native", "device": "cuda"})
