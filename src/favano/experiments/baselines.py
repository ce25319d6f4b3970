"""From a specification to the methods of other authors."""

from __future__ import annotations

import numpy as np

from favano.algorithms import (
    Aafl,
    AsyncFedED,
    FedAsync,
    FedFix,
    FedNova,
    Scaffold,
    first_arrivals,
    parse_staleness,
)
from favano.experiments.spec import Spec, given, steps_of
from favano.schedule import Adaptive, Arrival, Barrier, Window
from favano.theory import expected_windows
from favano.timing import Fleet
from favano.types import Floats


def build_fedasync(spec: Spec, fleet: Fleet) -> FedAsync:
    """Every arrival is a server step, and the client goes on with the new model."""
    policy = Arrival(
        buffer=1,
        local_steps=steps_of(spec),
        hand_out="flush",
        concurrency=given(spec.concurrency),
        interaction_time=spec.interaction_time,
        latency=spec.latency,
        max_staleness=spec.max_staleness,
    )
    return FedAsync(
        policy=policy,
        mixing=spec.mixing,
        halved_at=spec.halve_mixing_at or None,
        staleness=parse_staleness(spec.staleness),
    )


def build_aafl(spec: Spec, fleet: Fleet) -> Aafl:
    """All clients at work; those whose answers are taken in start again."""
    policy = Arrival(
        buffer=first_arrivals(spec.arrival_fraction, fleet.clients),
        local_steps=steps_of(spec),
        hand_out="flush",
        interaction_time=spec.interaction_time,
    )
    return Aafl(policy=policy, importance=_equal(fleet), weights=spec.arrival_weights)


def build_fedfix(spec: Spec, fleet: Fleet) -> FedFix:
    """A server step every window."""
    policy = Window(period=spec.window, local_steps=steps_of(spec))
    unbiased = spec.window_weights == "unbiased"
    return FedFix(
        policy=policy,
        importance=_equal(fleet),
        windows=expected_windows(policy, fleet) if unbiased else np.ones(fleet.clients),
        server_learning_rate=given(spec.server_learning_rate),
    )


def build_scaffold(spec: Spec, fleet: Fleet) -> Scaffold:
    """Rounds as FedAvg's, with corrected local steps."""
    return Scaffold(
        policy=barrier_policy(spec),
        clients=fleet.clients,
        server_learning_rate=given(spec.server_learning_rate),
    )


def build_fednova(spec: Spec, fleet: Fleet) -> FedNova:
    """Rounds as FedAvg's, with progress a step."""
    return FedNova(
        policy=barrier_policy(spec), server_learning_rate=given(spec.server_learning_rate)
    )


def build_asyncfeded(spec: Spec, fleet: Fleet) -> AsyncFedED:
    """Every arrival is a server step that says how long the client's next job is."""
    policy = Adaptive(
        local_steps=steps_of(spec),
        most_steps=given(spec.most_local_steps),
        interaction_time=spec.interaction_time,
        latency=spec.latency,
    )
    return AsyncFedED(
        policy=policy,
        scale=given(spec.server_learning_rate) * spec.distance_offset,
        offset=spec.distance_offset,
        target=spec.distance_target,
        gain=spec.distance_gain,
    )


def barrier_policy(spec: Spec) -> Barrier:
    """The rounds of the synchronous methods."""
    return Barrier(
        selected=given(spec.selected),
        local_steps=steps_of(spec),
        interaction_time=spec.interaction_time,
        deadline=spec.deadline,
        at_deadline=spec.at_deadline,
        round_time=spec.round_time,
        drop_last=spec.drop_last,
    )


def _equal(fleet: Fleet) -> Floats:
    """p_i = 1/n."""
    return np.full(fleet.clients, 1.0 / fleet.clients)
