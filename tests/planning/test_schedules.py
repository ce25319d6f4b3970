"""Schedules that are planned by several processes."""

from __future__ import annotations

import os
from dataclasses import fields

import numpy as np
import pytest

from favano.errors import BadInput
from favano.methods.registry import our_methods
from favano.planning import schedules
from favano.planning.audit import audit, who_trains
from favano.planning.participation import participation_of
from favano.planning.planned import Seed, plan_all, plan_seed
from favano.schedule import Schedule, plan
from tests.forks import FORKS
from tests.specs import complete

pytestmark = FORKS


def seeds_of(*names: str, seeds: int = 2) -> list[Seed]:
    specs = [complete(algorithm=name, horizon=60.0, seeds=seeds) for name in names]
    return [Seed(spec, seed) for spec in specs for seed in range(seeds)]


def same(one: Schedule, other: Schedule) -> bool:
    pairs = [(getattr(one, field.name), getattr(other, field.name)) for field in fields(one)
             if hasattr(one, field.name)]  # fmt: skip
    return all(np.array_equal(a, b) and type(a) is type(b) for a, b in pairs)


def test_plans_do_not_depend_on_processes() -> None:
    seeds = seeds_of(*our_methods())
    alone = [plan_seed(seed.spec, seed.seed) for seed in seeds]
    schedules._schedules.clear()  # what is in use is not planned again
    together = plan_all(seeds, processes=3)
    assert len(together) == len(alone)
    for one, other in zip(alone, together, strict=True):
        assert (one.spec, one.seed, one.method) == (other.spec, other.seed, other.method)
        assert same(one.schedule, other.schedule)
        assert one.schedule is not other.schedule


@pytest.fixture
def planners(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many schedules this process plans itself."""
    made = list[int]()

    def counted(*given: object, **named: object) -> Schedule:
        made.append(os.getpid())
        return plan(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(schedules, "plan", counted)
    schedules._schedules.clear()
    return made


def test_a_few_are_planned_here_and_many_elsewhere(planners: list[int]) -> None:
    plan_all(seeds_of("fedavg", seeds=4), processes=2)
    assert len(planners) == 4
    schedules._schedules.clear()
    plan_all(seeds_of("fedavg", seeds=5), processes=2)
    assert len(planners) == 4


def test_runs_with_the_same_contacts_share_a_schedule(planners: list[int]) -> None:
    plans = plan_all(seeds_of("fedavg", "scaffold", seeds=5), processes=2)
    assert all(
        one.schedule is other.schedule for one, other in zip(plans[:5], plans[5:], strict=True)
    )
    assert not planners


def test_what_is_refused_in_another_process_is_refused_here() -> None:
    spec = complete(algorithm="fedavg", horizon=1e14, seeds=6)
    with pytest.raises(BadInput, match=r"^horizon="):
        plan_all([Seed(spec, seed) for seed in range(6)], processes=2)


@pytest.mark.parametrize("name", ["favano", "fedbuff", "asyncsgd", "asyncfeded", "scaffold"])
def test_who_trains_is_what_audit_and_participation_say(name: str) -> None:
    planned = plan_seed(complete(algorithm=name, horizon=100.0), 0)
    trained = who_trains(planned)
    assert trained.participation == participation_of(planned)
    assert trained.audit == (audit(planned, planned.weights) if planned.linear else None)
    assert who_trains(planned, audited=False) == (trained.participation, None)
