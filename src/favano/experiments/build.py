"""From a complete specification to the objects of a run: fleet, algorithm, schedule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import cast

import numpy as np

from favano.algorithms import (
    Aafl,
    Algorithm,
    AnyAlgorithm,
    AsyncSGD,
    Empirical,
    Favano,
    FavanoDelta,
    FedAvg,
    FedBuff,
    FedFix,
    FedNova,
    Known,
    Quafl,
    State,
    Weights,
    buffer_policy,
    parse_staleness,
)
from favano.errors import need
from favano.experiments.baselines import (
    barrier_policy,
    build_aafl,
    build_asyncfeded,
    build_fedasync,
    build_fedfix,
    build_fednova,
    build_scaffold,
)
from favano.experiments.spec import Spec, given, steps_of
from favano.schedule import Arrival, Course, Poll, Schedule, course, plan
from favano.theory import Form, Setting, expected_counts, setting
from favano.timing import Fleet, Trace, parse_law, traced_fleet, two_speeds
from favano.types import Floats

_MONTE_CARLO_CONTACTS = 2000  # a client


def make_fleet(spec: Spec, seed: int) -> Fleet:
    """The clients' speeds for one seed."""
    law = parse_law(spec.step_law)
    if isinstance(law, Trace):
        need(
            len(law.rows) == spec.clients,
            "step_law",
            spec.step_law,
            f"holds {len(law.rows)} clients, need clients ({spec.clients})",
        )
        return traced_fleet(law)
    return two_speeds(
        given(spec.clients),
        fast_fraction=spec.fast_fraction,
        fast_mean=spec.fast_mean,
        slow_mean=spec.slow_mean,
        law=law,
        seed=seed,
        rounding=spec.speed_rounding,
        order=spec.speed_order,
    )


def make_algorithm(spec: Spec, fleet: Fleet, samples: Floats | None = None) -> Algorithm[State]:
    """The algorithm that the specification names; `samples` are the clients' data set sizes."""
    algorithm = _BUILDERS[spec.algorithm](spec, fleet)
    if spec.sample_weights:
        rule = "needs the data, to know how many samples each client has"
        need(samples is not None, "sample_weights", spec.sample_weights, rule)
        assert samples is not None
        if isinstance(algorithm, FedAvg | FedNova):
            algorithm = replace(algorithm, samples=samples)
        elif isinstance(algorithm, Aafl | FedFix):
            algorithm = replace(algorithm, importance=samples / samples.sum())
    return cast(Algorithm[State], algorithm)  # each knows its own kind of state


def make_schedule(spec: Spec, fleet: Fleet, algorithm: Algorithm[State], seed: int) -> Schedule:
    """Who does what when, up to the horizon."""
    return plan(algorithm.policy, fleet, horizon=given(spec.horizon), seed=seed)


def make_course(
    spec: Spec, fleet: Fleet, algorithm: Algorithm[State], schedule: Schedule, seed: int
) -> Course:
    """What a run goes along, given what was planned."""
    return course(schedule, algorithm.policy, fleet, horizon=given(spec.horizon), seed=seed)


def step_sizes(spec: Spec, schedule: Schedule, algorithm: Algorithm[State]) -> Floats:
    """Step size of every job: the learning rate, the method's factor, and the decay if asked."""
    rates = given(spec.learning_rate) * algorithm.rate(schedule.client)
    if spec.rate_decay:
        share = schedule.begin / given(spec.horizon)
        rates = rates * np.where(share < 0.6, 1.0, np.where(share < 0.8, 0.5, 0.1))
    return np.asarray(rates)


def poll_policy(spec: Spec) -> Poll:
    """The polling clock of FAVANO and QuAFL."""
    return Poll(
        selected=given(spec.selected),
        local_steps=steps_of(spec),
        waiting_time=spec.waiting_time,
        interaction_time=spec.interaction_time,
        interruption=spec.interruption,
        starts_at_zero=spec.starts_at_zero,
        idle_in_interaction=spec.idle_in_interaction,
        strict_ties=spec.strict_ties,
        overrun=spec.overrun,
        step_count=spec.step_count,
    )


def bound_setting(spec: Spec, fleet: Fleet, form: Form = "rigorous") -> Setting | None:
    """What Theorem 1 needs to know of a run of FAVANO; None for what it says nothing about."""
    if spec.algorithm != "favano" or spec.reweight == "none":
        return None
    return setting(poll_policy(spec), fleet, spec.reweight, form)


def make_weights(spec: Spec, fleet: Fleet) -> Weights:
    """What FAVANO's clients know of their expected number of steps."""
    if spec.reweight == "none":
        return Known(np.ones(fleet.clients), np.ones(fleet.clients))
    if spec.weights == "empirical":
        return Empirical(fleet.groups)
    if spec.weights == "monte-carlo":
        return _monte_carlo(poll_policy(spec), fleet)
    if spec.weights == "given":
        return _given_weights(spec, fleet)
    positive, mean = expected_counts(poll_policy(spec), fleet)
    need(
        bool((positive > 0).all()),
        "weights",
        spec.weights,
        f"client {int(positive.argmin())} can never finish a step, so its progress cannot be "
        "made unbiased; use reweight=none, longer windows or faster clients",
    )
    return Known(positive, mean)


def _given_weights(spec: Spec, fleet: Fleet) -> Known:
    numbers = np.array(spec.given_weights)
    by_group = {1: np.zeros(fleet.clients, int), int(fleet.groups.max()) + 1: fleet.groups}
    by_group[fleet.clients] = np.arange(fleet.clients)
    rule = f"need {', '.join(str(size) for size in sorted(by_group))} numbers, found {len(numbers)}"
    need(len(numbers) in by_group, "given_weights", list(spec.given_weights), rule)
    each = numbers[by_group[len(numbers)]]
    ones = np.ones(fleet.clients)
    return Known(each, ones) if spec.reweight == "stochastic" else Known(ones, each)


def _monte_carlo(policy: Poll, fleet: Fleet) -> Known:
    rounds = _MONTE_CARLO_CONTACTS * fleet.clients // policy.selected
    drawn = plan(policy, fleet, horizon=rounds * policy.period, seed=2**40)
    used = slice(0, drawn.jobs)
    group = fleet.groups[drawn.client[used]]
    contacts = np.bincount(group)
    positive = np.bincount(group, drawn.steps[used] > 0) / contacts
    mean = np.bincount(group, drawn.steps[used]) / contacts
    return Known(positive[fleet.groups], mean[fleet.groups])


def _favano(spec: Spec, fleet: Fleet) -> Favano:
    return Favano(
        policy=poll_policy(spec),
        weights=make_weights(spec, fleet),
        reweight=spec.reweight,
        scaled_rate=spec.rate_scale == "selected",
    )


def _favano_delta(spec: Spec, fleet: Fleet) -> FavanoDelta:
    return FavanoDelta(
        policy=poll_policy(spec),
        weights=make_weights(spec, fleet),
        reweight=spec.reweight,
        server_learning_rate=given(spec.server_learning_rate),
    )


def _fedavg(spec: Spec, fleet: Fleet) -> FedAvg:
    return FedAvg(
        policy=barrier_policy(spec), server_learning_rate=given(spec.server_learning_rate)
    )


def _quafl(spec: Spec, fleet: Fleet) -> Quafl:
    return Quafl(
        policy=poll_policy(spec),
        scaled_rate=spec.rate_scale == "selected",
        client_averaging=spec.client_averaging,
        server_averaging=spec.server_averaging,
        dampening=expected_counts(poll_policy(spec), fleet)[1] if spec.dampening else None,
    )


def _fedbuff(spec: Spec, fleet: Fleet) -> FedBuff:
    buffer = given(spec.buffer)
    policy = buffer_policy(
        spec.buffer_mode,
        clients=fleet.clients,
        buffer=buffer,
        local_steps=steps_of(spec),
        concurrency=given(spec.concurrency),
        interaction_time=spec.interaction_time,
        distinct=spec.distinct,
        max_staleness=spec.max_staleness,
        flush_at_end=spec.flush_at_end,
    )
    return FedBuff(
        policy=policy,
        server_learning_rate=given(spec.server_learning_rate),
        staleness=parse_staleness(spec.staleness),
        rate_factor=buffer / fleet.clients if spec.rate_scale == "buffer" else 1.0,
    )


def _asyncsgd(spec: Spec, fleet: Fleet) -> AsyncSGD:
    policy = Arrival(
        buffer=1,
        local_steps=spec.gradients_per_job,
        hand_out="uniform" if spec.assignment == "uniform" else "flush",
        concurrency=given(spec.concurrency),
        interaction_time=spec.interaction_time,
        latency=spec.latency,
    )
    return AsyncSGD(
        policy=policy,
        concurrency=given(spec.concurrency),
        server_learning_rate=given(spec.server_learning_rate),
        delays=given(spec.delays),
    )


_BUILDERS: Mapping[str, Callable[[Spec, Fleet], AnyAlgorithm]] = {
    "favano": _favano,
    "favano-delta": _favano_delta,
    "fedavg": _fedavg,
    "quafl": _quafl,
    "fedbuff": _fedbuff,
    "asyncsgd": _asyncsgd,
    "asyncsgd-adaptive": _asyncsgd,
    "fedasync": build_fedasync,
    "aafl": build_aafl,
    "fedfix": build_fedfix,
    "scaffold": build_scaffold,
    "asyncfeded": build_asyncfeded,
    "fedprox": _fedavg,
    "fednova": build_fednova,
}
