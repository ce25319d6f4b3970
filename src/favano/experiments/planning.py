"""The seeds of a specification, planned before anything is trained."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from favano.algorithms import Algorithm, State
from favano.experiments.build import bound_setting, make_algorithm, make_fleet, make_schedule
from favano.experiments.spec import Spec
from favano.experiments.standing import Standing, weigh_clients
from favano.schedule import Schedule
from favano.theory import Setting
from favano.timing import Fleet


@dataclass(frozen=True)
class Planned:
    """One seed, planned but not trained."""

    spec: Spec  # with K in steps
    seed: int
    fleet: Fleet
    algorithm: Algorithm[State]
    schedule: Schedule
    setting: Setting | None = None  # with track_bound, where the theorem speaks of the method

    @cached_property
    def weights(self) -> Standing:
        """What the clients have in the final model; refused of methods of which it depends."""
        return weigh_clients(self.algorithm, self.schedule, self.fleet)


def plan_seeds(spec: Spec) -> list[Planned]:
    """The schedules of all seeds. Everything that can be refused without data is refused here."""
    planned = []
    for seed in range(spec.seed, spec.seed + spec.seeds):
        fleet = make_fleet(spec, seed)
        algorithm = make_algorithm(spec, fleet)
        schedule = make_schedule(spec, fleet, algorithm, seed)
        setting = bound_setting(spec, fleet) if spec.track_bound else None
        planned.append(Planned(spec, seed, fleet, algorithm, schedule, setting))
    return planned


def check_plan(spec: Spec) -> None:
    """Refuse now what can be refused without data, by planning one seed."""
    plan_seeds(spec.model_copy(update={"seeds": 1, "local_steps_unit": "steps"}))
