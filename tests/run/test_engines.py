"""Runs on stacks, here on the CPU, and the plain loop measure what runs on processes do."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from favano.engine import Engine
from favano.methods import our_methods
from favano.records import Row, history_to_csv
from favano.results import Result
from favano.run import engines
from favano.run.engines import Group, shared
from favano.run.runner import run_together
from favano.run.samples import Samples, load_samples, named_model
from favano.specification.spec import Spec, changed, make_spec
from tests.forks import FORKS
from tests.run.cpu_stacks import cpu_stacks
from tests.specs import spec_of, variant

KEYS = {"clients": 10, "selected": 3, "local_steps": 4, "model": "perceptron"}
SHORT = make_spec({**KEYS, "horizon": 140, "evaluate_every": 35, "learning_rate": 0.05})
SPECS = [
    variant(SHORT, {"algorithm": name, "seeds": 2})
    for name in ("favano", "quafl", "asofed", "asyncfeded")
]


@pytest.fixture(scope="module")
def digits() -> Samples:
    return load_samples(SHORT)


def results(specs: Sequence[Spec], digits: Samples) -> list[Result]:
    return run_together(specs, digits, named_model(specs[0], digits), workers=1)


def _counters(row: Row) -> Row:
    rest = {"loss": 0.0, "metrics": {}, "variance": 0.0, "potential": 0.0}
    return row._replace(**rest, model_digest="", digest="")  # type: ignore[arg-type]


def close(actual: Sequence[Row], expected: Sequence[Row]) -> None:
    """Counters to the bit; what is measured as closely as float32 is."""
    assert len(actual) == len(expected) > 0
    for row, other in zip(actual, expected, strict=True):
        assert _counters(row) == _counters(other)
        measured = row.loss, row.accuracy, row.variance, row.potential
        reference = other.loss, other.accuracy, other.variance, other.potential
        assert measured == pytest.approx(reference, rel=2e-3, abs=1e-6)


@pytest.mark.quick("_steps")
@pytest.mark.parametrize("steps", [engines._steps, cpu_stacks])
def test_the_models_of_runs_that_have_ended_are_freed_at_once(
    steps: Callable[..., object], digits: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a GPU the next runs need their memory, and nothing there wakes the garbage collector."""
    kept: list[weakref.ref[object]] = []

    class Watched(Engine):
        def __init__(self, *given: Any, **options: Any) -> None:
            super().__init__(*given, **options)
            lanes = self._dispatcher._lanes
            stack = getattr(lanes, "_stack", self)
            kept.extend(map(weakref.ref, (self, self._runs.models, lanes, stack)))

    monkeypatch.setattr(engines, "_steps", steps)
    monkeypatch.setattr(engines, "Engine", Watched)
    gc.collect()
    gc.disable()
    try:
        results(SPECS, digits)
        assert kept
        assert not any(reference() for reference in kept)
    finally:
        gc.enable()


def test_the_history_is_that_of_worker_processes(
    digits: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = results(SPECS, digits)
    monkeypatch.setattr(engines, "_steps", cpu_stacks)
    stacked = results(SPECS, digits)
    for ours, other in zip(stacked, expected, strict=True):
        close(ours.rows, other.rows)
        assert ours.status == "complete"
        assert [r.seed for r in ours.runs] == [0, 1]
        means = [[run.mean_model["accuracy"] for run in result.runs] for result in (ours, other)]
        assert means[0] == pytest.approx(means[1], abs=0.01)


def test_a_seed_is_the_same_whoever_shares_the_lanes(
    digits: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "_steps", cpu_stacks)
    together = results(SPECS, digits)[1]
    alone = results([changed(SPECS[1], {"seed": 1, "seeds": 1})], digits)[0]
    close(alone.rows, [row for row in together.rows if row.seed == 1])


ONE_STEP = {"asyncsgd", "asyncsgd-adaptive"}  # per job; live variance is refused


@pytest.mark.quick("live-favano")
@FORKS
@pytest.mark.parametrize(
    ("variance", "name"),
    [
        (variance, name)
        for variance in ("start", "live")
        for name in our_methods()
        if variance == "start" or name not in ONE_STEP
    ],
)
def test_the_plain_loop_gives_the_same_history_to_the_bit(
    variance: str, name: str, digits: Samples
) -> None:
    """As lanes do, be it one process or two."""
    keys = {"algorithm": name, "horizon": 70, "evaluate_every": 10, "variance": variance}
    spec = variant(SHORT, keys)
    model = named_model(spec, digits)
    texts = [
        history_to_csv(run_together([variant], digits, model, workers=workers)[0].rows)
        for variant, workers in ((changed(spec, {"engine": "loop"}), 1), (spec, 1), (spec, 2))
    ]
    assert texts[0].count("\n") > 7
    assert texts[1] == texts[0]
    assert texts[2] == texts[0]


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


def test_memories_of_clients_are_counted() -> None:
    """Two vectors as long as the model: three times as much for each client."""
    plain = shared(147 * GIGA, GIGA // 10, clients=100, runs=40)
    kept = shared(147 * GIGA, GIGA // 10, clients=100, runs=40, memory=GIGA // 5)
    assert (plain.runs, kept.runs) == (5, 1)
    assert kept.rows == 102
    assert kept.lanes == pytest.approx(0.9 * 147 * GIGA - 30.2 * GIGA, rel=1e-6)


def test_more_clients_than_fit_are_one_run() -> None:
    """Not every client has a model of its own; the rows grow where they do."""
    share = shared(10 * GIGA, 101_800, clients=100_000, runs=3)
    assert share.runs == 1
    assert share.rows * 101_800 <= 0.4 * 10 * GIGA
    assert share.lanes > 0


def group(spec: Spec, device: str) -> Group:
    """What runs on a device must have in common."""
    flat = SimpleNamespace(vector=torch.empty(0, device=device))
    run = SimpleNamespace(result=SimpleNamespace(spec=spec))
    return engines._group(flat, run)  # type: ignore[arg-type]


def test_only_batches_of_one_kind_share_a_stack() -> None:
    """On a CPU all runs share the lanes, but for those of the plain loop."""
    small, large = spec_of(batch_size=16), spec_of(batch_size=32)
    keys = ({"batch_order": "continuous"}, {"precision": "float32"}, {"engine": "loop"})
    others = [large, *(variant(small, other) for other in keys)]
    same = changed(small, {"algorithm": "quafl", "seed": 3})
    assert group(same, "meta") == group(small, "meta")
    assert all(group(other, "meta") != group(small, "meta") for other in others)
    assert [group(other, "cpu") == group(small, "cpu") for other in others] == [True] * 3 + [False]


def test_runs_of_both_engines_may_be_asked_for_together(digits: Samples) -> None:
    specs = [changed(SPECS[0], {"engine": "loop"}), SPECS[1], SPECS[0]]
    loop, other, lanes = results(specs, digits)
    assert [row.seed for row in loop.rows] == [row.seed for row in lanes.rows]
    assert loop.rows == lanes.rows
    assert loop.rows != other.rows == results([SPECS[1]], digits)[0].rows


@FORKS
def test_where_forked_processes_cannot_train_this_one_does_and_says_so(
    digits: Samples, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As after a gradient with a GPU in sight."""
    model = named_model(SHORT, digits)
    plain = run_together([SHORT], digits, model, workers=1)[0]
    assert caplog.messages == []
    monkeypatch.setattr("favano.training.worker_lanes.computes_gradients", lambda: False)
    alone = run_together([SHORT], digits, model, workers=2)[0]
    assert alone.rows == plain.rows
    assert "training in one process instead of 2" in caplog.text
