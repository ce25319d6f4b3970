"""Runs as arrays, here with lanes on the CPU, measure what runs one by one do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from favano.engine import Step
from favano.records import Row
from favano.run import engines
from favano.run.engines import Share, on_arrays, shared
from favano.run.result import Result
from favano.run.runner import run_together
from favano.run.samples import Samples, load_samples, named_model
from favano.run.seed_run import SeedRun
from favano.specification.spec import Spec, changed, make_spec
from favano.training import FlatModel, LaneStack
from tests.forks import FORKS

KEYS = {"clients": 10, "selected": 3, "local_steps": 4, "model": "perceptron"}
SHORT = make_spec({**KEYS, "horizon": 140, "evaluate_every": 35, "learning_rate": 0.05})
SPECS = [changed(SHORT, {"algorithm": name, "seeds": 2}) for name in ("favano", "quafl")]


@pytest.fixture(scope="module")
def digits() -> Samples:
    return load_samples(SHORT)


@contextmanager
def arrays(
    flat: FlatModel, runs: Sequence[SeedRun], workers: int | None
) -> Iterator[Iterator[Step]]:
    stacks = [LaneStack(flat, [one.trainer for one in runs], 16) for _ in range(2)]
    yield on_arrays(runs, stacks, Share(3, 5, 0), None)


def results(specs: Sequence[Spec], digits: Samples) -> list[Result]:
    return run_together(specs, digits, named_model(specs[0], digits), workers=1)


def close(found: Sequence[Row], expected: Sequence[Row]) -> None:
    """Counters to the bit; what is measured as closely as float32 is."""
    assert len(found) == len(expected) > 0
    for one, other in zip(found, expected, strict=True):
        assert one._replace(loss=0, accuracy=0, variance=0, potential=0) == other._replace(
            loss=0, accuracy=0, variance=0, potential=0
        )
        measured = one.loss, one.accuracy, one.variance, one.potential
        reference = other.loss, other.accuracy, other.variance, other.potential
        assert measured == pytest.approx(reference, rel=2e-3, abs=1e-6)


def test_the_history_is_that_of_the_pool(digits: Samples, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = results(SPECS, digits)
    monkeypatch.setattr(engines, "_side_by_side", arrays)
    found = results(SPECS, digits)
    for one, other in zip(found, expected, strict=True):
        close(one.rows, other.rows)
        assert one.status == "complete"
        assert [r.seed for r in one.runs] == [0, 1]
        means = [[run.mean_model_accuracy for run in result.runs] for result in (one, other)]
        assert means[0] == pytest.approx(means[1], abs=0.01)


def test_a_seed_is_the_same_whoever_shares_the_lanes(
    digits: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "_side_by_side", arrays)
    together = results(SPECS, digits)[1]
    alone = results([changed(SPECS[1], {"seed": 1, "seeds": 1})], digits)[0]
    close(alone.rows, [row for row in together.rows if row.seed == 1])


GIGA = 10**9


def test_memory_is_shared_out() -> None:
    """For the 139 GiB of an H200, 100 clients a run."""
    resnet_18, resnet_20, perceptron = 44_800_000, 1_100_000, 101_800
    big = shared(147 * GIGA, resnet_18, clients=100, runs=4)
    assert big.runs == 4
    assert big.rows == 4 * 102
    assert 113 * GIGA < big.lanes < 115 * GIGA
    assert shared(147 * GIGA, resnet_18, clients=100, runs=40).runs == 12
    assert shared(147 * GIGA, resnet_20, clients=100, runs=12).runs == 12
    assert shared(147 * GIGA, perceptron, clients=100, runs=120).runs == 120


def test_more_clients_than_fit_are_one_run() -> None:
    """Not every client has a model of its own; the rows grow where they do."""
    share = shared(10 * GIGA, 101_800, clients=100_000, runs=3)
    assert share.runs == 1
    assert share.rows * 101_800 <= 0.4 * 10 * GIGA
    assert share.lanes > 0


@FORKS
def test_where_forked_processes_cannot_train_this_one_does_and_says_so(
    digits: Samples, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """As after a gradient with a GPU in sight."""
    model = named_model(SHORT, digits)
    plain = run_together([SHORT], digits, model, workers=1)[0]
    assert capfd.readouterr().err == ""
    monkeypatch.setattr("favano.training.worker_lanes.computes_gradients", lambda: False)
    alone = run_together([SHORT], digits, model, workers=2)[0]
    assert alone.rows == plain.rows
    assert "favano: training in one process instead of 2" in capfd.readouterr().err
