"""The seeds of a specification, planned before anything is trained. NumPy only."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from favano.algorithms import Algorithm, State
from favano.data import split
from favano.engine.audit import LocalSteps
from favano.experiments.build import (
    bound_setting,
    make_algorithm,
    make_fleet,
    make_schedule,
    step_sizes,
)
from favano.experiments.spec import Spec, given
from favano.experiments.standing import MOST, Standing, weigh_clients
from favano.schedule import Schedule
from favano.theory import Setting
from favano.timing import Fleet
from favano.types import Floats, Ints


@dataclass(frozen=True)
class Planned:
    """One seed, planned but not trained."""

    spec: Spec  # with K in steps
    seed: int
    fleet: Fleet
    algorithm: Algorithm[State]
    schedule: Schedule
    setting: Setting | None = None  # with track_bound, where the theorem speaks of the method

    @property
    def local_steps(self) -> LocalSteps:
        """How clients step, for the audit."""
        rates = step_sizes(self.spec, self.schedule, self.algorithm)
        return LocalSteps(rates, self.spec.proximal or 0.0)

    @cached_property
    def weights(self) -> Standing:
        """The shares of clients in the final model; refused where they depend on the models."""
        return self.weigh()

    def weigh(self, most: int = MOST) -> Standing:
        """The same with up to `most` clients weighed one by one."""
        return weigh_clients(self.algorithm, self.schedule, self.fleet, self.local_steps, most)


def plan_seeds(spec: Spec, labels: Ints | None = None) -> list[Planned]:
    """The schedules of all seeds. Everything that can be refused without data is refused here.

    `labels` are those of the training data, for methods that weigh clients by their samples.
    """
    return [plan_seed(spec, seed, labels) for seed in range(spec.seed, spec.seed + spec.seeds)]


def plan_seed(spec: Spec, seed: int, labels: Ints | None = None) -> Planned:
    """One seed of a specification."""
    fleet = make_fleet(spec, seed)
    algorithm = make_algorithm(spec, fleet, _samples(spec, seed, labels))
    schedule = make_schedule(spec, fleet, algorithm, seed)
    setting = bound_setting(spec, fleet) if spec.track_bound else None
    return Planned(spec, seed, fleet, algorithm, schedule, setting)


def check_plan(spec: Spec) -> None:
    """Refuse now what can be refused without data, by planning one seed."""
    without_data = {"seeds": 1, "local_steps_unit": "steps", "sample_weights": False}
    plan_seeds(spec.model_copy(update=without_data))


def _samples(spec: Spec, seed: int, labels: Ints | None) -> Floats | None:
    """How many samples each client has, where that matters and is known."""
    if not spec.sample_weights or labels is None:
        return None
    parts = split(labels, given(spec.clients), given(spec.split), seed)
    return np.array([len(part) for part in parts], dtype=np.float64)
