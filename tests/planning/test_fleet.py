"""The fleet of a seed, by hand: speeds, presence, links, energy, and groups of clients."""

from __future__ import annotations

import json
import pickle
from math import inf
from pathlib import Path

import numpy as np
import pytest

import favano
from favano.errors import BadInput
from favano.planning.fleet import conditions_digest, make_fleet
from favano.planning.planned import bind_method, check_plans, plan_seed
from favano.planning.schedules import make_schedule
from favano.timing import (
    IDEAL,
    Conditions,
    Fault,
    JobCost,
    LogNormal,
    draw_devices,
    phone_scores,
)
from tests.specs import complete, spec_of

COST = JobCost(flops=1e9, bits_up=8e6, bits_down=4e6)


def test_without_conditions_a_fleet_is_as_ever() -> None:
    fleet = make_fleet(complete(clients=9), 1)
    assert fleet.conditions == IDEAL
    assert fleet.energy is None
    assert sorted(fleet.mean) == [2.0] * 6 + [16.0] * 3
    assert conditions_digest(fleet.conditions) == b""


def test_phones_are_drawn_without_repetition_and_take_seconds() -> None:
    fleet = make_fleet(complete(clients=333, fleet="phones"), 0, COST)
    assert sorted(fleet.mean) == sorted(1e9 / (1e7 * phone_scores()))
    assert fleet.law == LogNormal(0.3)
    other = make_fleet(complete(clients=333, fleet="phones"), 1, COST)
    assert fleet.mean.tolist() != other.mean.tolist()
    twice = make_fleet(complete(clients=666, fleet="phones"), 0, COST)
    assert twice.mean.tolist() == fleet.mean.tolist() * 2
    assert len(phone_scores()) == 333
    assert (phone_scores().min(), phone_scores().max()) == (105, 4310)


def test_speeds_scale_with_the_cost_of_a_step_and_the_score() -> None:
    spec = complete(clients=5, fleet="phones")
    fleet = make_fleet(spec, 0, COST)
    assert spec.fleet.flops_per_score == 1e7
    assert make_fleet(spec, 0, COST._replace(flops=3e9)).mean == pytest.approx(3 * fleet.mean)
    faster = complete(clients=5, fleet="phones", flops_per_score=5e7)
    assert make_fleet(faster, 0, COST).mean == pytest.approx(fleet.mean / 5)


def test_flops_per_second_of_all_or_of_each() -> None:
    assert make_fleet(complete(clients=3, flops_per_second=2e9), 0, COST).mean.tolist() == [0.5] * 3
    each = complete(flops_per_second=[1e9, 2e9, 4e9])
    assert make_fleet(each, 0, COST).mean.tolist() == [1.0, 0.5, 0.25]
    assert each.fleet.clients == 3
    with pytest.raises(BadInput, match="geometric steps need a finite mean >= 1"):
        make_fleet(complete(flops_per_second=[1e9, 2e9], step_law="geometric"), 0, COST)
    law = complete(flops_per_second=[1e8, 2e8], step_law="geometric").fleet.step_law
    assert law == "geometric"


def test_a_cost_that_is_not_known_is_a_sentence() -> None:
    for keys in (
        {"fleet": "phones"},
        {"flops_per_second": 1e9},
        {"link": "home", "weights": "empirical"},
    ):
        with pytest.raises(BadInput, match="makes a time of what a job costs, which is not known"):
            make_fleet(complete(clients=3, selected=1, **keys), 0)
        check_plans([complete(clients=3, selected=1, **keys)])  # what can be checked without it


def test_links_take_latency_and_size_over_rate() -> None:
    spec = complete(clients=3, selected=1, link="8:16:0.5", server_link="80:40")
    links = make_fleet(spec, 0, COST).conditions.links
    assert links is not None
    assert links.up.tolist() == [0.5 + 1.0] * 3
    assert links.down.tolist() == [0.5 + 0.25] * 3
    assert (links.server_up, links.server_down) == (0.1, 0.1)
    assert spec.clock.interaction_time == 0
    server = make_fleet(complete(clients=2, selected=1, server_link="8:8"), 0, COST)
    assert server.conditions.links is not None
    assert server.conditions.links.up.tolist() == [0.0, 0.0]


def test_profiles_of_appfl_are_by_number(tmp_path: Path) -> None:
    path = tmp_path / "profiles.json"
    profiles = [{"delay": 2.0, "bandwidth": 8.0}, {"compute_factor": 0.5, "bandwidth": 0}]
    path.write_text(json.dumps({str(place): each for place, each in enumerate(profiles)}))
    keys = {"clients": 2, "selected": 1, "fleet": f"appfl:{path}"}
    assert make_fleet(complete(**keys), 0).mean.tolist() == [2.0, 0.5]
    fleet = make_fleet(complete(**keys, flops_per_second=1e8, link=f"appfl:{path}"), 0, COST)
    assert fleet.mean.tolist() == [20.0, 5.0]
    links = fleet.conditions.links
    assert links is not None
    assert links.up.tolist() == [8e6 / (8 * 2**20), 0.0]


def test_devices_of_fedscale_have_their_own_rates(tmp_path: Path) -> None:
    path = tmp_path / "client_device_capacity"
    held = {n: {"computation": 10.0 * n, "communication": 100.0 * n} for n in range(1, 8)}
    path.write_bytes(pickle.dumps(held))
    keys = {"clients": 5, "selected": 1, "batch_size": 20}
    named = f"fedscale:{path}"
    fleet = make_fleet(complete(**keys, fleet=named, link=named), 3, COST)
    device = draw_devices(3, 5, 7) + 1
    assert fleet.mean == pytest.approx(3 * 20 * 0.01 * device)  # FedScale's own formula
    assert fleet.conditions.links is not None
    assert fleet.conditions.links.up == pytest.approx(8e6 / (1e5 * device))


def test_behaviour_of_fedscale_comes_again(tmp_path: Path) -> None:
    path = tmp_path / "client_behave_trace"
    first = {"active": [50, 0], "inactive": [60, 20], "finish_time": 100}
    path.write_bytes(pickle.dumps({4: first, 9: {**first, "finish_time": 60, "model": "phone"}}))
    spec = complete(clients=2, selected=1, horizon=130.0, availability=f"fedscale:{path}")
    presence = make_fleet(spec, 0).conditions.presence
    assert presence is not None
    rows = np.split(np.stack([presence.begin, presence.end], axis=1), presence.first[1:-1])
    assert rows[0].tolist() == [[0, 20], [50, 60], [100, 120]]
    assert rows[1] == pytest.approx(
        np.array([[0, 20], [50, 80], [110, 130]]), rel=1e-5
    )  # touching ones are joined


def test_states_of_flame(tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    path = tmp_path / "traces.yaml"
    path.write_text(
        """
description: two devices, and a made-up trace
traces:
  device_001:
    states_2st:
    - - 0
      - UN_AVL
    - - 10
      - AVL_TRAIN
    - - 30
      - AVL_EVAL
    states_3st_50:
    - [0, AVL_TRAIN]
    trainer: trainer_001
  device_002:
    states_2st:
    - [5, AVL_TRAIN]
    states_3st_50: [[1, UN_AVL]]
  syn_10:
    per_trainer:
      n300:
        trainer_001: [[0, UN_AVL], [7, AVL_TRAIN]]
"""
    )

    def share(name: str, clients: int = 2) -> list[float]:
        keys = {"clients": clients, "selected": 1, "horizon": 100.0}
        presence = make_fleet(complete(**keys, availability=name), 0).conditions.presence
        assert presence is not None
        return [float(share) for share in presence.share(100.0)]

    assert share(f"flame:{path}") == [0.2, 0.95]
    assert share(f"flame:{path}:states_3st_50") == [1.0, 0.0]
    assert share(f"flame:{path}:syn_10", 1) == [0.93]


def test_groups_are_dealt_at_random_and_keep_their_own() -> None:
    groups = [
        {"name": "office", "share": 0.3, "mean": 2, "availability": "daily:0.5:1:10"},
        {"share": 0.7, "fleet": "phones", "link": "8:8", "joules_per_step": 3},
    ]
    fleet = make_fleet(complete(clients=10, horizon=100.0, group=groups), 0, COST)
    office = fleet.mean == 2
    assert office.sum() == 3
    phones = make_fleet(complete(clients=10, fleet="phones"), 0, COST)
    assert fleet.mean[~office].tolist() == phones.mean[~office].tolist()
    conditions, energy = fleet.conditions, fleet.energy
    assert conditions.presence is not None
    assert conditions.presence.share(100.0) == pytest.approx(np.where(office, 0.5, 1.0))
    assert conditions.links is not None
    assert conditions.links.up.tolist() == np.where(office, 0.0, 1.0).tolist()
    assert energy is not None
    assert energy.per_step.tolist() == np.where(office, 0.0, 3.0).tolist()
    again = make_fleet(complete(clients=10, horizon=100.0, group=groups), 1, COST)
    assert (again.mean == 2).tolist() != office.tolist()


def test_groups_count_their_clients_or_their_shares() -> None:
    third = [{"share": "1/3", "mean": mean} for mean in (1, 2, 3)]
    means = make_fleet(complete(clients=10, group=third), 0).mean
    assert sorted((means == mean).sum() for mean in (1, 2, 3)) == [3, 3, 4]
    counted = complete(group=[{"clients": 4, "mean": 1}, {"clients": 2, "mean": 5}])
    assert counted.fleet.clients == 6
    assert sorted(make_fleet(counted, 0).mean) == [1, 1, 1, 1, 5, 5]


def test_energy_of_steps_by_joules_or_watts() -> None:
    def energy(**keys: object) -> list[list[float]]:
        held = make_fleet(complete(mean=[1, 2], selected=1, **keys), 0).energy
        assert held is not None
        return [held.per_step.tolist(), held.per_byte.tolist()]

    assert energy(joules_per_step=3) == [[3, 3], [0, 0]]
    assert energy(joules_per_step=[3, 4], joules_per_byte=0.5) == [[3, 4], [0.5, 0.5]]
    assert energy(watts=[10, 5]) == [[10, 10], [0, 0]]
    assert energy(joules_per_byte=[1, 2]) == [[0, 0], [1, 2]]


def test_faults_and_timeouts_are_conditions(tmp_path: Path) -> None:
    path = tmp_path / "faults.toml"
    path.write_text('[[fault]]\nwho = "node 1"\nwhen = "5 s"\nwhat = "lose"\n')
    spec = complete(clients=3, selected=1, faults=str(path), timeout=60, when_away="paused")
    conditions = make_fleet(spec, 0).conditions
    expected = Conditions(None, "paused", None, 60, (Fault((1,), "lose", 5.0),))
    assert conditions == expected
    assert not conditions.always_there
    assert make_fleet(complete(mean=[1, 2], selected=1), 0).conditions.timeout == inf


def test_schedules_are_shared_only_under_the_same_conditions(tmp_path: Path) -> None:
    path = tmp_path / "there.csv"
    spec = complete(clients=1, selected=1, horizon=50.0, availability=f"trace:{path}")
    digests = set()
    for second in (1, 2, 1):
        path.write_text(f"client,second,available\n0,{second},1\n")
        digests.add(conditions_digest(make_fleet(spec, 0).conditions))
    assert len(digests) == 2


def test_plans_without_conditions_are_unchanged() -> None:
    plain, counted = complete(horizon=300.0), complete(horizon=300.0, joules_per_step=1.0)
    one_plan, other = plan_seed(plain, 0), plan_seed(counted, 0)
    assert one_plan.schedule.steps.tolist() == other.schedule.steps.tolist()
    method = bind_method(plain, 0)
    assert make_schedule(plain, method, 0) is one_plan.schedule


def test_fleets_in_python_are_those_of_the_keys() -> None:
    phones = favano.Fleet.phones(9, availability="daily:0.5", link="home", watts=2)
    keys = {"clients": 9, "fleet": "phones", "availability": "daily:0.5", "link": "home"}
    assert phones == spec_of(**keys, watts=2).fleet
    groups: list[dict[str, object]] = [
        {"share": 0.5, "mean": 2.0},
        {"share": 0.5, "mean": 3.0, "link": "home"},
    ]
    grouped = favano.Fleet.groups(groups, clients=4)
    words = ["share=0.5 mean=2", "share=0.5 mean=3 link=home"]
    assert grouped == spec_of(clients=4, group=words).fleet
