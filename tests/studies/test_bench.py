"""What a bench reports."""

from __future__ import annotations

import numpy as np
import pytest

from favano.errors import BadInput
from favano.planning.planned import plan_seeds
from favano.specification.presets import resolve
from favano.specification.spec import Spec, make_spec, required
from favano.studies.bench import Effort, _pilot, _Sample, _System, bench, bench_samples
from favano.training import default_kernels
from tests.specs import spec_of

IDLE = _Sample(0.0, 0.0, None, {}, None)


def test_synthetic_images_have_the_shape_of_the_data_set() -> None:
    mnist = bench_samples(resolve(spec_of(dataset="mnist")))
    assert mnist.features.shape == (60_000, 1, 28, 28)
    assert 0 <= float(mnist.features.min()) < float(mnist.features.max()) <= 1
    assert np.bincount(mnist.labels).tolist() == [6000] * 10
    assert (len(mnist.test_features), mnist.preprocessing) == (1, None)
    with pytest.raises(BadInput, match="dataset=digits: has no synthetic stand-in"):
        bench_samples(resolve(spec_of()), synthetic=True)


@pytest.mark.parametrize("cores", [1, 2])
def test_lanes_do_the_work_of_all_seeds(cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("favano.studies.bench.usable_cores", lambda: cores)
    spec = resolve(spec_of(clients=10, selected=3, local_steps=4, seeds=2))
    measured = bench(spec, bench_samples(spec), Effort(seconds=0.05, repeats=2, workers=1))
    work = measured["schedule"]
    plans = [planned.schedule for planned in plan_seeds(make_spec(measured["spec"]))]
    assert work["jobs"] == sum(plan.jobs for plan in plans) > 0
    assert work["local_steps"] == sum(int(plan.steps[: plan.jobs].sum()) for plan in plans)
    assert work["local_steps"] < work["images"] <= 32 * work["local_steps"]
    assert work["parallelism"] >= 2  # the seeds do not wait for each other
    plain, *threads, lanes = measured["systems"]
    assert (plain["name"], lanes["name"]) == ("plain loop", "lanes")
    assert [system["name"] for system in threads] == ["plain loop, 2 threads"] * (cores - 1)
    assert plain["kernels"] == default_kernels()
    assert lanes["kernels"] == measured["spec"]["kernels"] != "auto"  # those of a long run
    assert 0 < plain["shares"]["outside_training"]["median"] < 1
    assert lanes["shares"] == {}  # one worker is this process
    assert (plain["start_up"], plain["horizon"] > 0) == (None, True)
    assert lanes["horizon"] == measured["spec"]["horizon"]
    assert lanes["start_up"] is not None
    assert min(lanes["start_up"]["first"], lanes["start_up"]["warm"]["min"]) > 0
    assert measured["ratio"]["min"] <= measured["ratio"]["median"] <= measured["ratio"]["max"]


def system_of(speed: float, start: float, called: list[float]) -> _System:
    """Makes one update per unit of time, of one local step; the first time takes longer."""

    def measure(spec: Spec) -> _Sample:
        horizon = required(spec.run.horizon)
        called.append(horizon)
        first = start if len(called) == 1 else 0.1 * start
        return _Sample(speed, horizon / speed, first, {}, None)

    return _System("fake", 1, resolve(spec_of()), measure)


def test_a_sample_takes_the_time_given_whatever_the_speed() -> None:
    for speed in (1.0, 1000.0, 250_000.0):
        called: list[float] = []
        pilot = _pilot(system_of(speed, 30.0, called), seconds=5.0)
        assert required(pilot.spec.run.horizon) == pytest.approx(max(20.0, 5 * speed))
        assert pilot.first.start_up == 30.0
        assert called[-1] / speed >= 0.25 * 5.0
        assert len(called) <= 6


def test_a_fleet_that_trains_nothing_is_refused() -> None:
    with pytest.raises(BadInput, match=r"slow_mean=16\.0: no update uses a local step by time"):
        _pilot(system_of(1.0, 0.0, [])._replace(measure=lambda spec: IDLE), seconds=5.0)


def test_refusals() -> None:
    for keys, rule in (
        ({"engine": "loop"}, "engine=loop: bench compares the plain loop with lanes"),
        ({"algorithm": "asyncfeded"}, "algorithm=asyncfeded: its jobs depend on the models"),
    ):
        spec = resolve(spec_of(**keys))
        with pytest.raises(BadInput, match=rule):
            bench(spec, bench_samples(spec), Effort())
    for name in ("seconds", "repeats", "workers"):
        with pytest.raises(BadInput, match=f"{name}=0: need"):
            Effort(**{name: 0})
