"""The bound beside a run: it holds where it is finite, and says nothing where theory does not."""

from __future__ import annotations

from itertools import pairwise
from math import inf
from pathlib import Path

import pytest

from favano.errors import BadInput
from favano.records import history_to_csv
from favano.results import Result, write_result
from favano.run.constants import Point, Probe
from favano.run.runner import run
from favano.run.samples import load_samples, named_model
from favano.specification.presets import resolve
from favano.specification.spec import make_spec
from favano.types import Vector

BASE: dict[str, object] = {
    "clients": 6, "selected": 2, "local_steps": 3, "horizon": 210.0, "evaluate_every": 70.0,
}  # fmt: skip


def tracked(**keys: object) -> Result:
    spec = resolve(make_spec({**BASE, "track_bound": True, **keys}))
    samples = load_samples(spec)
    return run(spec, samples, named_model(spec, samples), workers=1)


def test_bounds_hold_at_a_rate_the_theorem_allows(tmp_path: Path) -> None:
    result = tracked(learning_rate=1e-4)
    assert len(result.bounds) == len(result.rows) == 4
    first, *rest = result.bounds
    assert first.server_step == 0
    assert first.bound_full == inf
    for row, seen in zip(rest, result.rows[1:], strict=True):
        assert row.learning_rate <= row.largest_rate
        assert row.mean_gradient <= row.bound_assembled <= row.bound_full < inf
        assert 0 <= row.potential <= row.potential_bound < inf
        assert (row.potential, row.time) == (seen.potential, seen.time)
    write_result(tmp_path, result, "favano run")
    lines = (tmp_path / "bound.csv").read_text().splitlines()
    assert lines[0].startswith("seed,time,server_step,gradient,mean_gradient,potential")
    assert len(lines) == 5


def test_nothing_is_claimed_beyond_that_rate() -> None:
    for row in tracked(learning_rate=0.5).bounds[1:]:
        assert row.bound_short == row.bound_full == row.bound_assembled == inf
        assert row.gradient > 0


def test_other_methods_have_gradients_and_no_bounds() -> None:
    for keys in ({"algorithm": "fedavg"}, {"reweight": "none"}):
        last = tracked(learning_rate=1e-4, **keys).bounds[-1]
        assert last.gradient > 0
        assert last.bound_full == last.potential_bound == last.largest_rate == inf


def test_the_mean_is_over_server_steps() -> None:
    rows = tracked(learning_rate=0.1).bounds
    steps = [b.server_step - a.server_step for a, b in pairwise(rows)]
    total = sum(row.gradient * count for row, count in zip(rows, steps, strict=False))
    assert rows[-1].mean_gradient == pytest.approx(total / rows[-1].server_step)


def test_tracking_does_not_change_the_run() -> None:
    plain = tracked(track_bound=False)
    assert plain.bounds == []
    assert history_to_csv(plain.rows) == history_to_csv(tracked().rows)


def test_a_clock_without_a_law_is_refused() -> None:
    with pytest.raises(BadInput, match="interruption=keep: has no exact law"):
        tracked(interruption="keep", weights="empirical")


def test_a_run_that_diverges_is_tracked_to_its_end() -> None:
    result = tracked(learning_rate=1e20, non_finite="skip")
    assert len(result.bounds) == len(result.rows) == 4
    assert result.bounds[-1].bound_assembled == inf
    assert result.bounds[-1].smoothness >= result.bounds[0].smoothness > 0


def test_without_steps_nothing_is_bounded() -> None:
    assert tracked(learning_rate=0.0).bounds[-1].bound_full == inf


def test_constants_beyond_the_theory_do_not_end_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    measure = Probe.at

    def at(probe: Probe, model: Vector) -> Point:
        return measure(probe, model)._replace(smoothness=1e200, noise=1e200)

    monkeypatch.setattr(Probe, "at", at)
    last = tracked().bounds[-1]
    assert (last.smoothness, last.noise) == (1e30, 1e30)
    assert last.bound_full == inf
