"""How long a server step lasts, against planned schedules."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

from favano.methods.fedbuff import BufferMode, FedBuff
from favano.policies import Buffered, Policy, Polling, Rounds, Windowed
from favano.schedule import plan
from favano.theory import server_time
from favano.timing import (
    ClientSpeeds,
    Deterministic,
    Exponential,
    LogNormal,
    StepLaw,
    Trace,
    client_speeds,
    traced_fleet,
    two_speeds,
)
from tests.methods.bound import bound


def check(policy: Policy, fleet: ClientSpeeds, horizon: float) -> None:
    """The mean step of a long schedule lies within four standard errors of the closed form."""
    exact = server_time(policy, fleet)
    assert exact.error < 1e-4 * exact.mean
    time = np.concatenate([[0.0], plan(policy, fleet, horizon=horizon, seed=11).time])
    steps = np.diff(time)
    block = steps[: len(steps) // 20 * 20].reshape(20, -1).mean(axis=1)
    error = block.std(ddof=1) / np.sqrt(20)
    assert steps.mean() == pytest.approx(exact.mean, abs=4 * error + 1e-9)


@pytest.mark.parametrize("round_time", ["sum", "one-draw"])
@pytest.mark.parametrize("share", [2 / 3, 1 / 9])
def test_rounds_of_fedavg(round_time: str, share: float) -> None:
    policy = Rounds(selected=20, local_steps=20, round_time=round_time)  # type: ignore[arg-type]
    check(policy, two_speeds(100, fast_fraction=share, seed=1), 400_000)


@pytest.mark.parametrize("law", [Exponential(), Deterministic(), LogNormal(0.8)])
def test_rounds_under_other_laws(law: StepLaw) -> None:
    check(Rounds(selected=5, local_steps=4), two_speeds(20, law=law, seed=1), 60_000)


def test_rounds_of_mean_length_deadlines_buffers_and_traces() -> None:
    fleet = two_speeds(30, seed=2)
    check(Rounds(selected=3, local_steps=4, round_time="mean"), fleet, 60_000)
    check(Rounds(selected=5, local_steps=4, deadline=50.0), fleet, 60_000)
    check(Rounds(selected=30, local_steps=4, wait_for=7), fleet, 20_000)
    means = client_speeds(np.array([1.0, 2.0, 4.0, 4.0, 9.0]))
    check(Rounds(selected=3, local_steps=5), means, 60_000)


def test_rounds_of_recorded_steps_are_planned() -> None:
    """Their order matters: a job of two steps lasts 7 here, never 2 or 12."""
    fleet = traced_fleet(Trace((np.array([1.0, 6.0]), np.array([6.0, 1.0]))))
    assert server_time(Rounds(selected=2, local_steps=2), fleet).mean == pytest.approx(10.0)
    mean = Rounds(selected=2, local_steps=2, round_time="mean")
    assert server_time(mean, fleet) == (10.0, 0.0)


@pytest.mark.quick("3.0-1-40.0")
@pytest.mark.parametrize("deadline", [None, 40.0])
@pytest.mark.parametrize(("spread", "steps"), [(2.0, 4), (3.0, 1), (3.0, 4)])
def test_rounds_under_heavy_tails(spread: float, steps: int, deadline: float | None) -> None:
    """Against draws of whole rounds; the sum of all jobs, whose mean is known, steadies them."""
    rng, slow, fast, chosen = np.random.default_rng(3), 8, 12, 5
    means = np.repeat([16.0, 2.0], [slow, fast])
    who = np.argsort(rng.random((100_000, slow + fast)), axis=1)[:, :chosen]
    scale = (np.log(means[who]) - spread**2 / 2)[..., None]
    job = np.exp(scale + spread * rng.normal(size=(*who.shape, steps))).sum(axis=2)
    total = chosen * steps * means.mean()
    drawn = total - (job.sum(axis=1) - job.max(axis=1))
    if deadline is not None:
        drawn = np.minimum(job.max(axis=1), deadline)
    error = drawn.std() / np.sqrt(len(drawn))
    policy = Rounds(selected=chosen, local_steps=steps, deadline=deadline)
    time = server_time(policy, client_speeds(means, law=LogNormal(spread)))
    assert 0 < time.error < 1e-3 * time.mean
    assert time.mean - 3.0 == pytest.approx(drawn.mean(), abs=4 * error + time.error)
    assert time.mean - 3.0 < total


@pytest.mark.parametrize("spread", [0.3, 2.0, 4.0])
def test_the_error_of_a_round_covers_its_difference_from_closed_forms(spread: float) -> None:
    """E max(D_1, D_2) = 2 m N(spread / sqrt 2), and E min(D, T), for log-normal steps of mean m."""
    mean, deadline = 7.0, 30.0
    pair = client_speeds(np.array([mean, mean]), law=LogNormal(spread))
    time = server_time(Rounds(selected=2, local_steps=1), pair)
    assert abs(time.mean - 3 - 2 * mean * ndtr(spread / 2**0.5)) <= time.error + 1e-9
    policy = Rounds(selected=1, local_steps=1, deadline=deadline)
    place = np.log(deadline / mean) / spread
    cut = mean * ndtr(place - spread / 2) + deadline * ndtr(-place - spread / 2)
    time = server_time(policy, client_speeds(np.array([mean]), law=LogNormal(spread)))
    assert abs(time.mean - 3 - cut) <= time.error + 1e-9


@pytest.mark.parametrize(("share", "fedavg", "reset"), [(2 / 3, 417.4, 36.4), (1 / 9, 461.4, 49.8)])
def test_values_at_the_papers_constants(share: float, fedavg: float, reset: float) -> None:
    """Exact; simulations of 4,000 rounds give 416.7 and 461.6, and 36.2 and 50."""
    fleet = two_speeds(100, fast_fraction=share)
    time = server_time(Rounds(selected=20, local_steps=20), fleet)
    assert time.mean == pytest.approx(fedavg, abs=0.051)
    policy = bound(FedBuff(buffer=10, buffer_mode="reset"), fleet, 20).policy()
    assert server_time(policy, fleet).mean == pytest.approx(reset, abs=0.051)


@pytest.mark.parametrize(("share", "gap"), [(2 / 3, 0.0281), (1 / 9, 0.0904)])
def test_free_running_clients(share: float, gap: float) -> None:
    policy = Buffered(buffer=1, local_steps=1, hand_out="flush", latency="none")
    time = server_time(policy, two_speeds(100, fast_fraction=share))
    assert time.mean == pytest.approx(gap, abs=5.1e-5)
    assert time.error == 0
    latency = Buffered(buffer=4, local_steps=3, hand_out="arrival", latency="client")
    check(latency, two_speeds(20, seed=3), 20_000)


def test_polling_takes_its_period() -> None:
    fleet = two_speeds(10)
    assert server_time(Polling(selected=2, local_steps=2), fleet) == (7.0, 0.0)
    assert server_time(Windowed(period=5.0, local_steps=2), fleet) == (5.0, 0.0)


@pytest.mark.parametrize(("mode", "length"), [("code", 5.73), ("block", 6.43)])
def test_what_has_no_closed_form_is_planned(mode: BufferMode, length: float) -> None:
    policy = bound(FedBuff(buffer=10, buffer_mode=mode), 100, 20).policy()
    time = server_time(policy, two_speeds(100))
    assert 0 < time.error < 0.02
    assert time.mean == pytest.approx(length, abs=0.05)
