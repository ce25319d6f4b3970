"""Everything that the theory calls exact, against a simulation of a few lines that shares no code.

Times are whole numbers of sixtieths here, so that ties are exact, and floats in the package. A mean
that is more than four standard errors from the theory must be so again in sixteen times as many
draws: a false alarm needs both, about one in 10^7. Examples and draws are the same in every run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import cycle, islice
from math import log
from pathlib import Path
from random import Random
from statistics import fmean, stdev

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from favano.errors import BadInput
from favano.planning.planned import plan_seed
from favano.policies import Polling, Rounds, Windowed
from favano.schedule import plan
from favano.theory import job_windows, step_count
from favano.timing import (
    ClientSpeeds,
    Deterministic,
    Exponential,
    Geometric,
    LogNormal,
    StepLaw,
    Trace,
    client_speeds,
    traced_fleet,
)
from tests.examples import examples
from tests.specs import complete, read_by
from tests.theory.test_durations import OwnExponential

UNIT = 60
BATCHES, SIZE = 30, 240  # jobs; a multiple of all periods of five lines
FEW = examples(40)


@dataclass(frozen=True)
class Client:
    """A law of step times and its parameters, in sixtieths."""

    law: StepLaw
    mean: int
    lines: tuple[int, ...] = ()

    def durations(self, random: Random) -> Iterator[float]:
        """The steps of this client, one after the other."""
        match self.law:
            case Trace():
                yield from cycle(self.lines)
            case Deterministic():
                yield from cycle([self.mean])
            case LogNormal(spread):
                while True:
                    yield random.lognormvariate(log(self.mean) - spread**2 / 2, spread)
            case Geometric():
                while True:
                    yield UNIT * geometric(UNIT / self.mean, random)
            case _:
                while True:
                    yield random.expovariate(1 / self.mean)


def geometric(chance: float, random: Random) -> int:
    """The first success."""
    count = 1
    while random.random() >= chance:
        count += 1
    return count


def polled(client: Client, policy: Polling, chance: float, random: Random) -> Iterator[int]:
    """The steps that a client has made at each of its contacts."""
    period, durations, left = sixtieths(policy.period), client.durations(random), None
    while True:
        gap, now, made = geometric(chance, random), 0.0, 0
        room = gap * period - policy.idle_in_interaction * sixtieths(policy.interaction_time)
        if policy.step_count != "durations":
            drawn = geometric(UNIT / client.mean, random) - (policy.step_count == "literal-zero")
            yield min(drawn, policy.longest_job)
            continue
        while made < policy.longest_job and now < room:
            step = next(durations) if left is None else left
            now, left = now + step, None
            if now < room or (now == room and not policy.strict_ties):
                made += 1
            elif policy.interruption != "redraw":
                left = now - room if policy.interruption == "resume" else step
        yield made


def in_rounds(client: Client, policy: Rounds, random: Random) -> Iterator[int]:
    """The steps of a client's updates to rounds with a deadline."""
    assert policy.deadline is not None
    durations, deadline = client.durations(random), sixtieths(policy.deadline)
    while True:
        now, made, step = (
            0.0,
            0,
            next(durations) if policy.round_time == "one-draw" else client.mean,
        )
        while made < policy.longest_job and now < deadline:
            now += next(durations) if policy.round_time == "sum" else step
            made += now <= deadline
        whole = made == policy.longest_job
        yield made if whole or policy.at_deadline == "take" else 0


def windows(client: Client, policy: Windowed, random: Random) -> Iterator[int]:
    """The windows that a client's jobs last."""
    durations, period = client.durations(random), sixtieths(policy.period)
    while True:
        length, count = sum(islice(durations, policy.longest_job)), 0
        while count * period < length:
            count += 1
        yield count


def sixtieths(time: float) -> int:
    """A time of the package as it was meant."""
    assert abs(UNIT * time - round(UNIT * time)) < 1e-6
    return round(UNIT * time)


def agrees(
    expected: float, numbers: Callable[[int], Iterator[float]], error: float = 0.0, slack: float = 0
) -> bool:
    """Whether the mean of a long run is as expected, twice if it is not at first.

    `error` is the least standard error of one number, for what is seen too rarely to vary.
    """
    for seed, size in ((1, SIZE), (2, 16 * SIZE)):
        run = islice(numbers(seed), size, None)  # without the beginning
        means = [fmean(islice(run, size)) for _ in range(BATCHES)]
        spread = max(stdev(means), error / size**0.5) / BATCHES**0.5
        if abs(fmean(means) - expected) <= 4 * spread + slack * abs(expected) + 1e-6:
            return True
    return False


def times(least: int = 1) -> st.SearchStrategy[int]:
    """Multiples of 0.1, 1/4 and 1/3 up to 4, which tie often."""
    few = st.integers(least, 12)
    return st.builds(lambda count, unit: count * unit, few, st.sampled_from([6, 15, 20]))


@st.composite
def clients(draw: st.DrawFn) -> Client:
    kind = draw(st.sampled_from(["geometric", "constant", "trace", "exponential", "heavy", "own"]))
    if kind == "trace":
        lines = tuple(draw(st.lists(times(), min_size=1, max_size=5)))
        row = np.array(lines) / UNIT
        return Client(Trace((row,)), round(fmean(lines)), lines)
    law: dict[str, StepLaw] = {
        "geometric": Geometric(),
        "constant": Deterministic(),
        "exponential": Exponential(),
        "own": OwnExponential(),
        "heavy": LogNormal(draw(st.sampled_from([0.3, 1.0, 2.0]))),
    }
    return Client(law[kind], draw(times(10 if kind == "geometric" else 1)))


@st.composite
def polls(draw: st.DrawFn) -> tuple[Polling, int]:
    """A policy and a number of clients."""
    count = draw(st.integers(1, 5))
    waiting, talking = draw(times(0)), draw(times(0))
    assume(waiting + talking > 0)
    policy = Polling(
        selected=draw(st.integers(1, count)),
        local_steps=draw(st.integers(1, 5)),
        waiting_time=waiting / UNIT,
        interaction_time=talking / UNIT,
        interruption=draw(st.sampled_from(["redraw", "redraw", "resume", "keep"])),
        idle_in_interaction=draw(st.booleans()),
        strict_ties=draw(st.booleans()),
        step_count=draw(st.sampled_from(["durations", "durations", "literal", "literal-zero"])),
    )
    return policy, count


def mean_of(client: Client) -> float:
    row = client.law.rows[0] if isinstance(client.law, Trace) else np.array([client.mean / UNIT])
    return float(row.mean())


ONE_AND_THIRTY = Client(Trace((np.array([1.0, 30.0]),)), 930, (60, 1800))
TIED = Client(Deterministic(), 54)


def check_polls(client: Client, asked: tuple[Polling, int]) -> None:
    """P(E > 0) and E[X]; refused where the package says that it has no exact law."""
    policy, count = asked
    literal = policy.step_count != "durations"
    assume(not literal or client.mean >= UNIT)
    client = Client(Deterministic(), client.mean) if literal else client
    try:
        law = step_count(policy, clients=count, law=client.law, mean=mean_of(client))
    except BadInput:
        assert policy.interruption != "redraw"  # which is said to have no exact law
        return
    chance = policy.selected / count
    positive, variance = law.p_positive, law.variance

    def some(seed: int) -> Iterator[float]:
        return (float(made > 0) for made in polled(client, policy, chance, Random(seed)))

    def all_steps(seed: int) -> Iterator[float]:
        return (float(made) for made in polled(client, policy, chance, Random(seed)))

    assert agrees(positive, some, max(positive * (1 - positive), 0.0) ** 0.5)
    assert agrees(law.mean, all_steps, max(variance, 0.0) ** 0.5)


@given(clients(), polls())
@example(ONE_AND_THIRTY, (Polling(selected=1, local_steps=2), 1))
@example(TIED, (Polling(selected=1, local_steps=3, waiting_time=0.6, interaction_time=0.3), 2))
@FEW
def test_steps_between_polls(client: Client, asked: tuple[Polling, int]) -> None:
    check_polls(client, asked)


@st.composite
def rounds(draw: st.DrawFn) -> Rounds:
    return Rounds(
        selected=1,
        local_steps=draw(st.integers(1, 5)),
        deadline=draw(times()) / UNIT,
        at_deadline=draw(st.sampled_from(["drop", "take"])),
        round_time=draw(st.sampled_from(["sum", "one-draw", "mean"])),
    )


def check_rounds(client: Client, policy: Rounds) -> None:
    """P(X > 0) and E[X] by a deadline."""
    if policy.round_time == "mean":
        client = Client(Deterministic(), client.mean)
    law = step_count(policy, clients=1, law=client.law, mean=mean_of(client))

    def all_steps(seed: int) -> Iterator[float]:
        return (float(made) for made in in_rounds(client, policy, Random(seed)))

    def some(seed: int) -> Iterator[float]:
        return (float(made > 0) for made in in_rounds(client, policy, Random(seed)))

    assert agrees(law.p_positive, some, max(law.p_positive * (1 - law.p_positive), 0.0) ** 0.5)
    assert agrees(law.mean, all_steps, max(law.variance, 0.0) ** 0.5)


@given(clients(), rounds())
@FEW
def test_steps_by_a_deadline(client: Client, policy: Rounds) -> None:
    check_rounds(client, policy)


def check_windows(client: Client, steps: int, period: int) -> None:
    """E[ceil(T / dt)]; a heavy tail beyond what a run sees is left to the other tests."""
    assume(not isinstance(client.law, OwnExponential))
    assume(not (isinstance(client.law, LogNormal) and client.law.spread > 1))
    expected = job_windows(client.law, mean_of(client), steps, period / UNIT)
    policy = Windowed(period=period / UNIT, local_steps=steps)
    assert agrees(expected, lambda seed: map(float, windows(client, policy, Random(seed))))


@given(clients(), st.integers(1, 5), times())
@FEW
def test_windows_of_jobs(client: Client, steps: int, period: int) -> None:
    check_windows(client, steps, period)


@given(clients(), polls(), st.booleans(), st.integers(0, 50))
@FEW
def test_the_planner_plays_every_step_as_by_hand(
    client: Client, asked: tuple[Polling, int], zero: bool, seed: int
) -> None:
    """Job by job, from the planner's own contacts and draws."""
    policy, count = replace(asked[0], starts_at_zero=zero, step_count="durations"), asked[1]
    fleet = fleet_of(client, count)
    schedule = plan(policy, fleet, horizon=40 * policy.period, seed=seed)
    period, recorded = sixtieths(policy.period), isinstance(client.law, Trace)
    idle = policy.idle_in_interaction * sixtieths(policy.interaction_time)
    for who in range(count):
        jobs = np.flatnonzero((schedule.client == who) & (schedule.used_by < schedule.updates))
        line, left, last = 0, None, 0
        for number, job in enumerate(jobs.tolist()):
            tick = int(schedule.used_by[job]) + (not zero)
            room, now, made, last = (tick - last) * period - idle, 0.0, 0, tick
            while made < policy.longest_job:
                place = line if recorded else number * policy.longest_job + made
                drawn = UNIT * float(fleet.durations(seed, np.array([who]), np.array([place]))[0])
                step = whole(drawn) if left is None else left
                if now >= room:  # it does not begin; its draw is kept with those of others
                    left = None if policy.interruption == "redraw" else step
                    break
                now, left = whole(now + step), None
                if now < room or (now == room and not policy.strict_ties):
                    made, line = made + 1, line + 1
                elif policy.interruption == "redraw":
                    line += 1
                    break
                else:
                    left = now - room if policy.interruption == "resume" else step
                    break
            assert schedule.steps[job] == made


def whole(time: float) -> float:
    """The number of sixtieths that a time must be, if it is one but for rounding."""
    return float(round(time)) if abs(time - round(time)) < 1e-6 else time


def fleet_of(client: Client, count: int) -> ClientSpeeds:
    if isinstance(client.law, Trace):
        return traced_fleet(Trace(client.law.rows * count))
    return client_speeds(np.full(count, client.mean / UNIT), client.law)


METHODS = [
    {"algorithm": "favano"},
    {"algorithm": "favano", "reweight": "deterministic"},
    {"algorithm": "favano-delta"},
    {"algorithm": "fedfix"},
]
FLEETS: dict[str, dict[str, object]] = {
    "tied": {"step_law": "deterministic", "fast_mean": 0.3, "slow_mean": 0.9},
    "geometric": {"step_law": "geometric", "fast_mean": 1.5, "slow_mean": 5.0},
    "heavy": {"step_law": "lognormal:2", "fast_mean": 0.5, "slow_mean": 3.0},
    "recorded": {"step_law": "trace"},
}


@pytest.mark.quick(
    "favano-geometric-4",
    "favano-deterministic-tied-4",
    "favano-deterministic-recorded-4",
    "favano-delta-heavy-4",
    "fedfix-geometric-4",
)
@pytest.mark.parametrize("selected", [1, 2, 4])
@pytest.mark.parametrize("fleet", FLEETS)
@pytest.mark.parametrize("method", METHODS, ids=lambda keys: "-".join(map(str, keys.values())))
def test_methods_with_exact_weights_are_fair(
    method: dict[str, object], fleet: str, selected: int, tmp_path: Path
) -> None:
    """The shares of four clients in the final model, over twelve seeds or 48."""
    keys: dict[str, object] = {"clients": 4, "local_steps": 3, "selected": selected, **method}
    keys |= FLEETS[fleet]
    if method["algorithm"] == "fedfix":
        keys["window"] = 0.9
    else:
        waiting = 1.2 if fleet == "geometric" else 0.6  # a step of 1 must be possible
        keys |= {"waiting_time": waiting, "interaction_time": 0.3}
    if fleet == "recorded":
        path = tmp_path / "steps.csv"
        lines = ["0,0.3", "1,0.9", "2,0.2", "2,1.1", "2,0.5", "3,0.1", "3,2.7"]
        path.write_text("\n".join(["client,duration", *lines]))
        keys["step_law"] = f"trace:{path}"
    else:
        keys["fast_fraction"] = 0.5
    spec = complete(**read_by(keys), horizon=180.0, split="iid")
    for seeds in (range(12), range(12, 60)):
        shares = np.array([plan_seed(spec, seed).weights.each for seed in seeds])
        error = shares.std(axis=0, ddof=1) / len(seeds) ** 0.5
        if (np.abs(shares.mean(axis=0) - 0.25) <= 4 * error + 0.01).all():
            return
    pytest.fail(f"shares {shares.mean(axis=0)}")
