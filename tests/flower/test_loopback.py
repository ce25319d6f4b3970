"""A whole federation on loopback, by its commands: a server and four uneven nodes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr")

from favano.metrics import Evaluator
from favano.run.replay import divergence, replayed
from favano.run.runner import run
from favano.run.samples import initial_module, load_samples, named_model
from favano.schedule.contact_trace import load_trace
from favano.specification.presets import resolve
from favano.specification.spec import Spec, make_spec
from favano.training import FlatModel
from favano.types import Vector
from tests.cli.test_own_policy import ROUND_ROBIN
from tests.flower.federation import federation, wait_for
from tests.flower.loopback import FAVANO, KEYS, PACES, Loopback, joined

TICK, ROUNDS, SEEDS = 2.5, 44, 16
# Of Student's law with SEEDS - 1 degrees of freedom: one run in a thousand lies further below.
QUANTILE = 3.733


def simulation(folder: Path) -> Spec:
    """The same federation in simulated time: a step takes as long as the nodes needed for one.

    On a busy machine that is longer than their paces.
    """
    trace = load_trace(folder / "trace.npz")
    part, made = trace.partition.astype(np.int64), trace.schedule.steps
    used = (part >= 0) & (made > 0)
    seconds, steps = (np.bincount(part[used], column[used]) for column in (trace.seconds, made))
    measured = seconds / steps
    assert len(measured) == len(PACES)
    assert (measured >= PACES).all()
    rows = [f"{client},{pace}" for client, pace in enumerate(measured)]
    durations = folder / "durations.csv"
    durations.write_text("\n".join(["client,duration", *rows]))
    clock = {"waiting_time": TICK, "interaction_time": 0.0, "horizon": ROUNDS * TICK}
    return resolve(make_spec({**KEYS, **clock, "step_law": f"trace:{durations}", "seeds": SEEDS}))


def accuracy(model: Vector, spec: Spec) -> float:
    """The share of test samples that a model gets right."""
    samples = load_samples(spec)
    flat = FlatModel(initial_module(named_model(spec, samples), spec.run.seed), device="cpu")
    judge = Evaluator(flat, samples.test_features, samples.test_labels, samples.loss)
    return float(judge.measure(model)[1])


@pytest.mark.machine
def test_four_uneven_nodes_learn_what_the_simulator_says(tmp_path: Path) -> None:
    """In under 3 minutes; afterwards no process is left, and no file but in its folder."""
    with federation(tmp_path) as lab:
        loopback = Loopback(lab, tick=TICK, grace=TICK / 2, rounds=ROUNDS)
        loopback.serve()
        nodes = [loopback.join(number) for number in range(4)]
        told = loopback.finish()
        assert loopback.rounds() == list(range(ROUNDS + 1))
        loopback.dismiss(nodes)
        assert lab.alive() == []
        assert lab.left_behind() == []
    spec = simulation(tmp_path)
    final, models = replayed(tmp_path)
    *_, last = models
    assert divergence(final, last).equal
    assert told == f"{accuracy(last, spec):.4g}"
    samples = load_samples(spec)
    free = run(spec, samples, named_model(spec, samples)).accuracy
    margin = QUANTILE * float(np.std(free, ddof=1)) * (1 + 1 / SEEDS) ** 0.5
    assert min(free) > 0.8
    assert float(told) > float(np.mean(free)) - margin


@pytest.mark.machine
def test_four_nodes_under_a_policy_of_ones_own_replay_to_the_bit(tmp_path: Path) -> None:
    """From a file in their folder, by commands alone; it is executed by those who trust it."""
    file = tmp_path / "mine.py"
    file.write_text(ROUND_ROBIN)
    own = {"algorithm": "fedavg", "policy": f"{file}:RoundRobin", "pause": 0.5, "selected": 2}
    with federation(tmp_path) as lab:
        loopback = Loopback(lab, rounds=12, tick=None, grace=None, **own)  # type: ignore[arg-type]
        loopback.serve()
        nodes = [loopback.join(number) for number in range(4)]
        loopback.finish()
        loopback.dismiss(nodes)
    trace = load_trace(tmp_path / "trace.npz")
    assert trace.schedule.updates == 12
    assert set(trace.schedule.client.tolist()) == {0, 1, 2, 3}
    replay = [*FAVANO, "replay", str(tmp_path)]
    refused = subprocess.run(replay, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert f"if you trust this file, add --trust {file}" in refused.stderr
    done = subprocess.run(
        [*replay, "--trust", str(file)], capture_output=True, text=True, check=False
    )
    assert done.stdout == "The models are equal to the bit.\n"


@pytest.mark.machine
def test_a_policy_that_fails_ends_the_server_in_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(ROUND_ROBIN)
    own = {"algorithm": "fedavg", "policy": f"{file}:RoundRobin", "fails": "receive", "pause": 0.5}
    with federation(tmp_path) as lab:
        loopback = Loopback(lab, rounds=12, tick=None, grace=None, **own)  # type: ignore[arg-type]
        loopback.serve()
        nodes = [loopback.join(number) for number in range(4)]
        server = loopback.servers[-1]
        wait_for(lambda: server.poll() is not None, "the end")
        loopback.dismiss(nodes)
        assert lab.alive() == []
    assert server.returncode == 2
    assert loopback.told.count("policy=RoundRobin: raises LookupError: no place") == 1
    assert "Traceback" not in loopback.told


@pytest.mark.machine
def test_asyncfeded_replays_to_the_bit(tmp_path: Path) -> None:
    """Its policy sees distances of models, and sets the lengths of jobs by them."""
    with federation(tmp_path) as lab:
        other = dict.fromkeys(("selected", "tick", "grace"))
        flags = {"algorithm": "asyncfeded", "rounds": 24, "most_local_steps": 20, **other}
        loopback = Loopback(lab, **flags)  # type: ignore[arg-type]
        loopback.serve()
        nodes = [loopback.join(number) for number in range(4)]
        loopback.finish()
        loopback.dismiss(nodes)
    final, models = replayed(tmp_path)
    *_, last = models
    assert divergence(final, last).equal
    schedule = load_trace(tmp_path / "trace.npz").schedule
    assert schedule.local_steps == 20
    assert len(set(schedule.steps[: schedule.jobs].tolist())) > 2


@pytest.mark.machine
def test_jobs_of_40_seconds_are_used_on_resident_and_stock_nodes(tmp_path: Path) -> None:
    """Meanwhile Flower's heartbeats draw from Python's generator, in threads of the nodes."""
    with federation(tmp_path) as lab:
        flags = {"algorithm": "fedavg", "rounds": 3, "selected": 2, "local_steps": 5}
        loopback = Loopback(lab, stock={1}, **flags, tick=None, grace=None)  # type: ignore[arg-type]
        loopback.serve()
        nodes = [loopback.join(1, "--pace", "8.5")]
        wait_for(lambda: joined(loopback.told), "the stock node")
        nodes.append(loopback.join(0, "--pace", "8.5"))
        loopback.finish()
        loopback.dismiss(nodes)
    assert "no client update" not in loopback.told
    trace = load_trace(tmp_path / "trace.npz")
    used = slice(0, trace.schedule.jobs)
    assert set(trace.partition[used]) == {0, 1}
    assert trace.seconds[used].min() > 40
    assert set(trace.schedule.steps[used]) == {5}
