"""The seeds of a specification, planned before anything is trained. NumPy only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np

from favano.data import split
from favano.engine.audit import LocalSteps
from favano.errors import need
from favano.methods import AnyMethod, World, is_ours
from favano.methods.favano import Favano
from favano.methods.selfcheck import check_method
from favano.planning.client_weights import MOST, ClientWeights, weigh_clients
from favano.schedule import Barrier, Course, Policy, Poll, Schedule, course, plan
from favano.specification.spec import Spec, given, steps_of
from favano.theory import Form, Setting, setting
from favano.timing import Fleet, Trace, parse_law, traced_fleet, two_speeds
from favano.types import Floats, Ints


@dataclass(frozen=True)
class Planned:
    """One seed, planned but not trained."""

    spec: Spec  # with K in steps
    seed: int
    method: AnyMethod  # bound to this seed's fleet
    schedule: Schedule
    setting: Setting | None = None  # with track_bound, where the theorem speaks of the method

    @property
    def fleet(self) -> Fleet:
        """The clients' speeds."""
        return self.method.world.fleet

    @property
    def course(self) -> Course:
        """What the run goes along: the schedule, or one that grows with it."""
        horizon = given(self.spec.run.horizon)
        policy = self.method.policy()
        return course(self.schedule, policy, self.fleet, horizon=horizon, seed=self.seed)

    def rates(self, schedule: Schedule) -> Floats:
        """Step size of every job: the learning rate, the method's factor, the decay if asked."""
        training = self.spec.training
        rates = given(training.learning_rate) * self.method.rates(schedule)
        if training.rate_decay:
            share = schedule.begin / given(self.spec.run.horizon)
            rates = rates * np.where(share < 0.6, 1.0, np.where(share < 0.8, 0.5, 0.1))
        return np.asarray(rates)

    @property
    def local_steps(self) -> LocalSteps:
        """How clients step, for the audit."""
        return LocalSteps(self.rates(self.schedule), self.spec.training.proximal or 0.0)

    @cached_property
    def weights(self) -> ClientWeights:
        """The shares of clients in the final model; refused where they depend on the models."""
        return self.weigh()

    def weigh(self, most: int = MOST) -> ClientWeights:
        """The same with up to `most` clients weighed one by one."""
        return weigh_clients(self.method, self.schedule, self.fleet, self.local_steps, most)


def plan_seeds(spec: Spec, labels: Ints | None = None) -> list[Planned]:
    """The schedules of all seeds. Everything that can be refused without data is refused here.

    `labels` are those of the training data, for methods that weigh clients by their samples.
    """
    first, seeds = spec.run.seed, spec.run.seeds
    return [plan_seed(spec, seed, labels) for seed in range(first, first + seeds)]


def plan_seed(spec: Spec, seed: int, labels: Ints | None = None) -> Planned:
    """One seed of a specification."""
    method = bind_method(spec, seed, labels)
    _check_clock(spec, method.policy())
    schedule = make_schedule(spec, method, seed)
    found = bound_setting(spec, method) if spec.run.track_bound else None
    return Planned(spec, seed, method, schedule, found)


def check_plan(spec: Spec) -> None:
    """Refuse now what can be refused without data, by planning one seed."""
    in_steps = replace(spec, training=replace(spec.training, local_steps_unit="steps"))
    plan_seed(in_steps, spec.run.seed)


def make_fleet(spec: Spec, seed: int) -> Fleet:
    """The clients' speeds for one seed."""
    part = spec.fleet
    law = parse_law(part.step_law)
    if isinstance(law, Trace):
        rule = f"holds {len(law.rows)} clients, need clients ({part.clients})"
        need(len(law.rows) == part.clients, "step_law", part.step_law, rule)
        return traced_fleet(law)
    return two_speeds(
        given(part.clients),
        fast_fraction=part.fast_fraction,
        fast_mean=part.fast_mean,
        slow_mean=part.slow_mean,
        law=law,
        seed=seed,
        rounding=part.speed_rounding,
        order=part.speed_order,
    )


def make_world(spec: Spec, seed: int, labels: Ints | None = None) -> World:
    """What the method of a run may know of it."""
    count: Callable[[], Floats] | None = None
    if labels is not None:

        def count() -> Floats:
            parts = split(labels, given(spec.fleet.clients), given(spec.problem.split), seed)
            return np.array([len(part) for part in parts], dtype=np.float64)

    return World(make_fleet(spec, seed), steps_of(spec), spec.clock, count)


def bind_method(spec: Spec, seed: int, labels: Ints | None = None) -> AnyMethod:
    """The method of a specification as a part of one seed's run; tried on an empty model.

    A method that is not ours is tried out first: what it declares is not believed.
    """
    if not is_ours(spec.method):
        check_method(spec.method)
    method = spec.method.bind(make_world(spec, seed, labels))
    method.init(np.zeros(1))  # type: ignore[arg-type]
    return method


def make_schedule(spec: Spec, method: AnyMethod, seed: int) -> Schedule:
    """Who does what when, up to the horizon."""
    fleet, horizon = method.world.fleet, given(spec.run.horizon)
    return plan(method.policy(), fleet, horizon=horizon, seed=seed)


def bound_setting(spec: Spec, method: AnyMethod, form: Form = "rigorous") -> Setting | None:
    """What Theorem 1 needs to know of a run of FAVANO; None for what it says nothing about."""
    if not isinstance(method, Favano) or method.reweight == "none":
        return None
    return setting(method.policy(), method.world.fleet, method.reweight, form)


def _check_clock(spec: Spec, policy: Policy) -> None:
    """Refuse times that the contact policy of the method does not look at."""
    asked = (spec.asked or spec).clock
    read = {"selected", *(one.name for one in fields(policy))}
    for key, value in asked.given.items():
        owner = "polls" if key in _names(Poll) else "rounds"
        rule = f"is a key of methods with {owner}, which {spec.method.name} has not"
        need(key in read, key, value, rule)


def _names(policy: type[Poll | Barrier]) -> set[str]:
    return {one.name for one in fields(policy)}
