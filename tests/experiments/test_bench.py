"""The critical path of scripted schedules by hand, and what a bench reports."""

from __future__ import annotations

import numpy as np
import pytest

from favano.errors import BadInput
from favano.experiments import Spec, plan_seeds, resolve
from favano.experiments.bench import Effort, bench, bench_samples, critical_path
from favano.schedule import Arrival, Barrier, Poll, Schedule, plan
from favano.timing import Trace, traced_fleet


def scripted(policy: Poll | Barrier | Arrival, *rows: list[float], horizon: float) -> Schedule:
    fleet = traced_fleet(Trace(tuple(np.array(row) for row in rows)))
    return plan(policy, fleet, horizon=horizon, seed=0)


def test_a_client_alone_is_a_chain() -> None:
    # windows of 7: 3 + 4 = 7 -> 2 steps; 8 -> none; 2, 2, 2 -> 3
    row = [3.0, 4.0, 1.0, 8.0, 1.0, 1.0, 2.0, 2.0, 2.0]
    schedule = scripted(Poll(selected=1, local_steps=3), row, horizon=21)
    assert schedule.steps[: schedule.jobs].tolist() == [2, 0, 3]
    assert critical_path(schedule) == 5


def test_rounds_add_up_their_longest_jobs() -> None:
    # every 7 both are asked: 3 and 1 steps, 1 and 2 steps -> 3 + 2
    fast, slow = [2.0, 2.0, 2.0, 5.0, 5.0, 5.0], [7.0, 7.0, 7.0, 3.0, 3.0, 3.0]
    schedule = scripted(Poll(selected=2, local_steps=3), fast, slow, horizon=14)
    assert schedule.steps[: schedule.jobs].tolist() == [3, 1, 1, 2]
    assert critical_path(schedule) == 5
    # FedAvg: everyone makes all K steps
    schedule = scripted(
        Barrier(selected=2, local_steps=3, interaction_time=0.0), fast, slow, horizon=22
    )
    assert critical_path(schedule) == 3 * schedule.updates


def test_long_jobs_run_beside_short_ones() -> None:
    # One update an arrival, each from the version of the client's last: the slow client's job
    # starts from the initial model, beside five of the fast one's.
    policy = Arrival(buffer=1, local_steps=1, hand_out="flush", interaction_time=0.0)
    schedule = scripted(policy, [1.0], [5.5], horizon=6.5)
    order = schedule.client[: schedule.jobs].tolist()
    assert order == [0, 0, 0, 0, 0, 1, 0]
    assert schedule.base[: schedule.jobs].tolist() == [-1, 0, 1, 2, 3, -1, 4]
    assert critical_path(schedule) == 6


def test_nothing_done_is_no_path() -> None:
    schedule = scripted(Poll(selected=1, local_steps=3), [100.0, 1.0, 1.0], horizon=21)
    assert critical_path(schedule) == 0
    schedule = scripted(Poll(selected=1, local_steps=3), [1.0, 1.0, 1.0], horizon=5)
    assert (schedule.updates, critical_path(schedule)) == (0, 0)


def test_the_critical_path_of_the_papers_setting() -> None:
    schedule = plan_seeds(resolve(Spec(dataset="mnist")))[0].schedule
    steps = int(schedule.steps[: schedule.jobs].sum())
    longest = np.maximum.reduceat(schedule.steps[: schedule.jobs], schedule.offsets[:-1])
    assert critical_path(schedule) < longest.sum() / 3 < steps / 3


def test_synthetic_images_have_the_shape_of_the_data_set() -> None:
    mnist = bench_samples(resolve(Spec(dataset="mnist")))
    assert mnist.features.shape == (60_000, 1, 28, 28)
    assert 0 <= float(mnist.features.min()) < float(mnist.features.max()) <= 1
    assert np.bincount(mnist.host_labels).tolist() == [6000] * 10
    assert (len(mnist.test_features), mnist.preprocessing) == (1, None)
    with pytest.raises(BadInput, match="dataset=digits: has no synthetic stand-in"):
        bench_samples(resolve(Spec()), synthetic=True)


def test_both_systems_do_the_work_of_all_seeds() -> None:
    spec = resolve(Spec(clients=10, selected=3, local_steps=4, seeds=2))
    found = bench(spec, bench_samples(spec), Effort(seconds=0.05, repeats=2, workers=1))
    work = found["schedule"]
    plans = [one.schedule for one in plan_seeds(Spec.model_validate(found["spec"]))]
    assert work["jobs"] == sum(one.jobs for one in plans) > 0
    assert work["local_steps"] == sum(int(one.steps[: one.jobs].sum()) for one in plans)
    assert work["local_steps"] < work["images"] <= 32 * work["local_steps"]
    assert work["parallelism"] >= 2  # the seeds do not wait for each other
    plain, lanes = found["systems"]
    assert (plain["name"], lanes["name"]) == ("plain loop", "lanes")
    assert 0 < plain["shares"]["outside_training"]["median"] < 1
    assert lanes["shares"] == {}  # one worker is this process
    assert found["ratio"]["min"] <= found["ratio"]["median"] <= found["ratio"]["max"]


def test_refusals() -> None:
    spec = resolve(Spec(buffers="local"))
    with pytest.raises(BadInput, match="buffers=local: such runs do not use the lanes"):
        bench(spec, bench_samples(spec), Effort())
    for name in ("seconds", "repeats", "workers"):
        with pytest.raises(BadInput, match=f"{name}=0: need"):
            Effort(**{name: 0})
