"""How many steps a client was expected to make: known weights, or frequencies seen so far."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from favano.errors import BadInput, require
from favano.methods.context import per_client
from favano.methods.method import Expected, Method, State
from favano.policies import BySamples, LeastRecent, Policy, Polling, Uniform, Weighted
from favano.schedule import plan
from favano.schedule.draws import alike_jobs, client_steps
from favano.timing import ClientSpeeds
from favano.types import Floats, Ints
from favano.user_classes import is_ours

Reweight = Literal["stochastic", "deterministic", "none"]
WeightSource = Literal["exact", "empirical", "monte-carlo", "given", "measured"]

REWEIGHT_TEXT = (
    "divide deltas by P(any step) x steps (stochastic), by expected steps (deterministic), "
    "or not (none)"
)
SOURCE_TEXT = (
    "source of P(any step) and expected steps: theory (exact), contacts so far (empirical), "
    "simulation (monte-carlo), --given-weights (given), a federation (measured)"
)
SOURCE_OTHERWISE = "exact; empirical where there is no exact law"
GIVEN_TEXT = "one number for all, per speed class (fast first) or client"

_MONTE_CARLO_CONTACTS = 2000  # per client
_FEWEST = 100  # of a client that is selected less often than others


@dataclass(frozen=True)
class KnownSteps:
    """P_i = P(E_i > 0) and M_i = E[min(E_i, K)] of every client, from theory or from the user."""

    positive: Floats  # (n,)
    mean: Floats  # (n,)

    def __post_init__(self) -> None:
        outside = self.positive[~((self.positive > 0) & (self.positive <= 1))]
        if len(outside):
            raise BadInput("weights", outside[0], "need P(E > 0) in (0, 1] for every client")
        require(bool((self.mean > 0).all()), "weights", self.mean.min(), "need E[X] > 0")


@dataclass(frozen=True)
class Empirical:
    """Running frequencies, pooled over clients whose steps have the same law.

    P = (1 + #{contacts with E > 0}) / (1 + #contacts), M = (1 + sum X) / (1 + #contacts).
    """

    group: Ints  # (n,)


@dataclass(frozen=True)
class Measured:
    """Those that the server of a federation measures; they come with the client updates."""


Weights: TypeAlias = KnownSteps | Empirical | Measured


def check_weights(rule: Reweight, source: WeightSource | None, given: tuple[float, ...]) -> None:
    """Refuse weights that nothing divides by, or that nobody gives."""
    text = "requires given_weights, one for all, each speed class or each client"
    require(source != "given" or bool(given), "weights", source, text)
    require(source == "given" or not given, "given_weights", list(given), "requires weights=given")
    text = "has no effect with reweight=none, which divides by nothing; remove it"
    require(rule != "none" or source in (None, "exact"), "weights", source, text)


def measured(method: Method[State]) -> Method[State]:
    """The same method in a federation, where weights are measured since nobody knows exact ones."""
    exact = getattr(method, "weights", "given") in (None, "exact")
    if not exact or getattr(method, "reweight", "none") == "none":
        return method
    return replace(method, weights="measured")  # type: ignore[call-arg]


def step_weights(
    rule: Reweight,
    source: WeightSource | None,
    given: tuple[float, ...],
    policy: Policy,
    fleet: ClientSpeeds,
    *,
    measured: bool = False,  # whether somebody measures clients' steps
) -> Weights:
    """What clients know of their expected number of steps; without a source, exactly."""
    source = source or "exact"
    if rule != "none" and source in ("exact", "monte-carlo", "measured"):
        known = isinstance(policy, Polling) or (source == "exact" and is_ours(policy))
        text = f"cannot be known with policy {type(policy).__name__}; use empirical or given"
        require(known, "weights", source, text)
    if source == "measured":
        text = "is for federations, whose server measures clients' steps; use exact or empirical"
        require(measured, "weights", source, text)
        return Measured()
    if rule == "none":
        return KnownSteps(np.ones(fleet.clients), np.ones(fleet.clients))
    if source == "empirical":
        return Empirical(_alike(policy, fleet))
    if source == "monte-carlo":
        assert isinstance(policy, Polling)
        return _monte_carlo(policy, fleet)
    if source == "given":
        return _given_weights(rule, given, fleet)
    from favano.theory import expected_counts  # SciPy comes with it

    # The law of a polled client that comes and goes is one for this horizon.
    steady = fleet.conditions.presence is None or not isinstance(policy, Polling)
    text = "cannot be known where clients come and go; use empirical or given"
    require(steady, "weights", source, text)
    positive, mean = expected_counts(policy, fleet)
    require(
        bool((positive > 0).all()),
        "weights",
        source,
        f"client {int(positive.argmin())} can never finish a step, so its progress cannot be "
        "made unbiased; use reweight=none, longer windows or faster clients",
    )
    return KnownSteps(positive, mean)


def _given_weights(rule: Reweight, given: tuple[float, ...], fleet: ClientSpeeds) -> KnownSteps:
    each = per_client("given_weights", given, fleet)
    ones = np.ones(fleet.clients)
    return KnownSteps(each, ones) if rule == "stochastic" else KnownSteps(ones, each)


def _monte_carlo(policy: Polling, fleet: ClientSpeeds) -> KnownSteps:
    """Of one long run, or of many runs in which clients are there at the same times."""
    text = "cannot be known from a longer run in which faults happen once; use empirical or given"
    known = not fleet.conditions.faults or fleet.conditions.presence is not None
    require(known, "weights", "monte-carlo", text)
    length = _MONTE_CARLO_CONTACTS * fleet.clients // policy.selected * policy.period
    horizon, runs, asked = length, 1, np.ones(fleet.clients, dtype=bool)
    if (presence := fleet.conditions.presence) is not None:
        from favano.theory import ever_there

        asked = ever_there(policy, presence)
        rule = "need clients that are there when the server asks; they never are"
        require(bool(asked.any()), "availability", "none", rule)
        horizon = float(presence.end.max())
        runs = int(np.ceil(length / horizon))
    alike = _alike(policy, fleet)
    contacts, positive, steps = np.zeros((3, int(alike.max()) + 1))
    for seed in range(2**40, 2**40 + runs):
        drawn = plan(policy, fleet, horizon=horizon, seed=seed)
        group, made = alike[drawn.client[: drawn.jobs]], drawn.steps[: drawn.jobs]
        for total, each in ((contacts, None), (positive, made > 0), (steps, made)):
            total += np.bincount(group, each, minlength=len(total))
    contacts[alike[~asked]] = positive[alike[~asked]] = steps[alike[~asked]] = _FEWEST  # never used
    text = f"client {int(contacts[alike].argmin())} is hardly ever selected, so that its steps are "
    require(contacts.min() >= _FEWEST, "weights", "monte-carlo", f"{text}not known; use empirical")
    return KnownSteps((positive / contacts)[alike], (steps / contacts)[alike])


def _alike(policy: Policy, fleet: ClientSpeeds) -> Ints:
    """Number of each client's law of step counts: by speed, K, selection and what it meets."""
    chance = np.zeros(fleet.clients)
    rule = policy.selection if isinstance(policy, Polling) else None
    if isinstance(rule, Weighted | BySamples):
        chance = np.array(rule.weights if isinstance(rule, Weighted) else rule.samples)
        chance = chance[fleet.streams]
    elif not isinstance(rule, Uniform | LeastRecent):  # whom it prefers is not known
        chance = np.arange(fleet.clients, dtype=np.float64)
    kinds = [alike_jobs(fleet.alike, client_steps(policy, fleet)), chance, *_met(fleet)]
    pairs = np.stack(kinds)
    return np.unique(pairs, axis=1, return_inverse=True)[1].ravel().astype(np.int64)


def _met(fleet: ClientSpeeds) -> list[Floats]:
    """In what the clients differ that they meet, (n,) each."""
    conditions, different = fleet.conditions, []
    if conditions.presence is not None:  # who is there with whom depends on the horizon
        different.append(np.arange(fleet.clients, dtype=np.float64))
    if conditions.links is not None:
        different += [conditions.links.down, conditions.links.up]
    if conditions.faults:
        faulty = [stream for fault in conditions.faults for stream in fault.clients]
        different.append(np.where(np.isin(fleet.streams, faulty), fleet.streams, -1.0))
    return different


class Seen(NamedTuple):
    """Contacts so far, by group."""

    contacts: Ints
    positive: Ints
    steps: Ints


def nothing_seen(weights: Weights) -> Seen:
    """Before the first contact."""
    none = np.zeros(int(weights.group.max()) + 1 if isinstance(weights, Empirical) else 0, int)
    return Seen(none, none, none)


def count(weights: Weights, seen: Seen, client: Ints, steps: Ints) -> Seen:
    """The same after these contacts."""
    if not isinstance(weights, Empirical):
        return seen
    group, size = weights.group[client], len(seen.contacts)
    return Seen(
        seen.contacts + np.bincount(group, minlength=size),
        seen.positive + np.bincount(group[steps > 0], minlength=size),
        seen.steps + np.bincount(group, steps, minlength=size).astype(np.int64),
    )


def alpha(
    rule: Reweight,
    weights: Weights,
    seen: Seen,
    client: Ints,
    steps: Ints,
    expected: Expected | None = None,
) -> Floats:
    """The divisor alpha_i of a client's progress: P_i X_i, or M_i, or 1 (paper, Section 3).

    A client that made no step has no progress to divide: its alpha is 1.
    """
    if isinstance(weights, KnownSteps):
        positive, mean = weights.positive[client], weights.mean[client]
    elif isinstance(weights, Measured):
        ones = np.ones(len(client))
        positive, mean = expected or (ones, ones)
    else:
        contacts = 1.0 + seen.contacts[weights.group[client]]
        positive = (1.0 + seen.positive[weights.group[client]]) / contacts
        mean = (1.0 + seen.steps[weights.group[client]]) / contacts
    divisor = {"stochastic": positive * steps, "deterministic": mean, "none": np.ones(len(steps))}
    return np.where(steps > 0, divisor[rule], 1.0)
