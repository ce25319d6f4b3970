"""Effective weights: FAVANO is fair, arrival order is not, and the numbers are exact."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from favano.engine import Replay, audit, effective_weights, late_weights, replayed, stretch_weights
from favano.methods import our_methods
from favano.methods.asyncsgd import AsyncSGD
from favano.methods.favano import Favano
from favano.methods.fedavg import FedAvg
from favano.methods.weights import Known
from favano.planning.planned import make_fleet, make_schedule, plan_seed
from favano.schedule import Arrival, Barrier, Poll, plan
from favano.specification.presets import resolve
from favano.specification.spec import make_spec
from favano.theory import expected_counts
from favano.timing import two_speeds
from favano.training import Layout, Work
from tests.MISSING import make_algorithm, step_sizes
from tests.problems import Linear, server_models
from tests.specs import spec_of


def test_equal_what_linear_losses_measure() -> None:
    """Independently: give one client a slope, the others none, and see how far the model moves."""
    fleet = two_speeds(8, seed=1)
    policy = Poll(selected=3, local_steps=4)
    algorithm = Favano(policy=policy, weights=Known(*expected_counts(policy, fleet)))
    schedule = plan(policy, fleet, horizon=300, seed=1)
    weight = effective_weights(algorithm, schedule)
    moved = []
    for client in range(8):
        slope = torch.zeros(8, 1, dtype=torch.float64)
        slope[client] = -1.0
        final = server_models(
            algorithm, schedule, Linear(slope), torch.zeros(1, dtype=torch.float64), rate=1.0
        )[-1]
        moved.append(float(final))
    assert weight == pytest.approx(np.array(moved) / sum(moved), abs=1e-12)
    assert weight.sum() == pytest.approx(1)


@pytest.mark.parametrize("at_once", [1, 3, 8])
def test_many_clients_are_weighed_a_few_at_a_time(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = two_speeds(8, seed=1)
    policy = Barrier(selected=3, local_steps=2)
    schedule = plan(policy, fleet, horizon=400, seed=1)
    algorithm = FedAvg(policy=policy, server_learning_rate=0.5)
    whole = effective_weights(algorithm, schedule)
    monkeypatch.setattr(audit, "_COLUMNS_AT_ONCE", at_once)
    assert effective_weights(algorithm, schedule).tolist() == whole.tolist()


def test_favano_is_fair_and_plain_averaging_of_arrivals_is_not() -> None:
    fleet = two_speeds(60, seed=2)
    slow = fleet.mean == 16
    policy = Poll(selected=12, local_steps=20)
    schedule = plan(policy, fleet, horizon=7 * 2000, seed=2)
    fair = Favano(policy=policy, weights=Known(*expected_counts(policy, fleet)))
    share = effective_weights(fair, schedule)[slow].sum()
    assert share == pytest.approx(slow.mean(), abs=0.02)
    raw = Favano(policy=policy, weights=Known(np.ones(60), np.ones(60)), reweight="none")
    assert effective_weights(raw, schedule)[slow].sum() < 0.12
    arrival = Arrival(buffer=1, local_steps=1, hand_out="flush", latency="none")
    asynchronous = AsyncSGD(policy=arrival, concurrency=60)
    biased = effective_weights(asynchronous, plan(arrival, fleet, horizon=300, seed=2))
    assert biased[slow].sum() < 0.1


def test_fedavg_counts_participation() -> None:
    fleet = two_speeds(6, seed=0)
    policy = Barrier(selected=2, local_steps=3)
    schedule = plan(policy, fleet, horizon=3000, seed=0)
    contacts = np.bincount(schedule.client[: schedule.jobs], minlength=6)
    weight = effective_weights(FedAvg(policy=policy), schedule)
    assert weight == pytest.approx(contacts / contacts.sum())


SMALL = {
    "clients": 8, "selected": 3, "local_steps": 4, "horizon": 300.0,
}  # fmt: skip
GROWING = ["asyncfeded"]  # its steps depend on the models: nobody has a weight
PLAIN: list[dict[str, object]] = [
    {"algorithm": name} for name in our_methods() if name not in GROWING
]
CASES: list[dict[str, object]] = [
    *PLAIN,
    {"algorithm": "favano", "reweight": "deterministic"},
    {"algorithm": "favano", "reweight": "none"},
    {"algorithm": "favano", "weights": "empirical"},
    {"algorithm": "quafl", "client_averaging": False, "dampening": True},
    {"algorithm": "fedbuff", "buffer": 3, "buffer_mode": "block"},
    {"algorithm": "fedbuff", "buffer": 3, "buffer_mode": "code", "staleness": "constant"},
    {"algorithm": "fedbuff", "buffer": 3, "buffer_mode": "reset"},
    {"algorithm": "asyncsgd", "assignment": "same", "delays": "drop"},
]


@pytest.mark.parametrize("keys", CASES, ids=lambda keys: "-".join(map(str, keys.values())))
def test_weights_are_what_linear_losses_measure_for_every_algorithm(
    keys: dict[str, object],
) -> None:
    """One client has a slope, the others none: how far the model moves is that client's weight."""
    spec = resolve(make_spec({**SMALL, **keys}))
    fleet = make_fleet(spec, 1)
    algorithm = make_algorithm(spec, fleet)
    schedule = make_schedule(spec, fleet, algorithm, 1)
    assert schedule.updates > 0
    moved = []
    for client in range(8):
        slope = torch.zeros(8, 1, dtype=torch.float64)
        slope[client] = -1.0
        start = torch.full((1,), 5.0, dtype=torch.float64)  # weights do not depend on where
        moved.append(float(server_models(algorithm, schedule, Linear(slope), start, 1.0)[-1]) - 5.0)
    measured = np.array(moved) / sum(moved)
    assert effective_weights(algorithm, schedule) == pytest.approx(measured, abs=1e-10)


@pytest.mark.parametrize("keys", CASES, ids=lambda keys: "-".join(map(str, keys.values())))
def test_stretches_add_up_to_the_whole(keys: dict[str, object]) -> None:
    """For every method, whatever it makes of old answers; and they weigh about the same."""
    spec = resolve(make_spec({**SMALL, "horizon": 3000.0, **keys}))
    fleet = make_fleet(spec, 1)
    algorithm = make_algorithm(spec, fleet)
    schedule = make_schedule(spec, fleet, algorithm, 1)
    found = stretch_weights(algorithm, schedule, np.arange(8))
    assert found.sum(axis=0) == pytest.approx(effective_weights(algorithm, schedule), abs=1e-10)
    stretches = found.sum(axis=1)
    assert len(stretches) > 5
    assert stretches.max() < 0.3


def test_stretches_of_a_method_that_adds_are_equally_long() -> None:
    """FedAvg, hand-counted: the share of a stretch is that of its updates."""
    fleet, policy = two_speeds(6, seed=0), Barrier(selected=2, local_steps=3)
    schedule = plan(policy, fleet, horizon=6000, seed=0)
    found = stretch_weights(FedAvg(policy=policy), schedule, fleet.groups)
    assert len(found) == 20
    updates = found.sum(axis=1) * schedule.updates
    assert updates == pytest.approx(updates.round())
    assert np.abs(updates - schedule.updates / 20).max() <= 1


def test_late_models_differ_where_each_is_mostly_one_clients() -> None:
    """FedAsync that puts nine tenths of the newest answer into its model, however stale."""
    keys = {"staleness": "constant", "mixing": 0.9, "halve_mixing_at": 0, "fast_fraction": 0.5}
    spec = resolve(make_spec({"algorithm": "fedasync", "clients": 40, "horizon": 900.0, **keys}))
    fleet = make_fleet(spec, 0)
    algorithm = make_algorithm(spec, fleet)
    schedule = make_schedule(spec, fleet, algorithm, 0)
    late = late_weights(algorithm, schedule, fleet.groups)
    assert late[-1] == pytest.approx(effective_weights(algorithm, schedule, fleet.groups))
    assert late.std(axis=0).min() > 0.05  # now one client's model, now another's
    fair = resolve(spec_of(clients=40, horizon=900.0))
    favano = make_algorithm(fair, fleet)
    steady = late_weights(favano, make_schedule(fair, fleet, favano, 0), fleet.groups)
    assert steady.std(axis=0).max() < 0.03


def test_groups_are_sums_of_their_clients() -> None:
    fleet, policy = two_speeds(8, seed=1), Poll(selected=3, local_steps=4)
    algorithm = Favano(policy=policy, weights=Known(*expected_counts(policy, fleet)))
    schedule = plan(policy, fleet, horizon=300, seed=1)
    for weights in (effective_weights, stretch_weights, late_weights):
        each = weights(algorithm, schedule, np.arange(8))
        both = weights(algorithm, schedule, fleet.groups)
        for group in (0, 1):
            members = each[..., fleet.groups == group]
            assert both[..., group] == pytest.approx(members.sum(axis=-1), abs=1e-12)


def test_nothing_happened() -> None:
    fleet, policy = two_speeds(6, seed=0), Barrier(selected=2, local_steps=3)
    schedule = plan(Poll(selected=2, local_steps=3), fleet, horizon=5, seed=0)
    assert schedule.updates == 0
    for weights in (effective_weights, stretch_weights, late_weights):
        assert not weights(FedAvg(policy=policy), schedule, fleet.groups).any()


@pytest.mark.parametrize("name", [name for name in our_methods() if name not in GROWING])
def test_the_local_rule_is_part_of_it(name: str) -> None:
    """A pull to the start and decaying rates: again what linear losses measure."""
    spec = resolve(make_spec({
        **SMALL, "algorithm": name, "proximal": 3.0, "learning_rate": 0.1, "rate_decay": True,
    }))  # fmt: skip
    planned = plan_seed(spec, 1)
    algorithm, schedule = planned.algorithm, planned.schedule
    rates = step_sizes(spec, schedule, algorithm)
    moved = []
    for client in range(8):
        slope = torch.zeros(8, 1, dtype=torch.float64)
        slope[client] = -1.0
        layout = Layout(parameters=1, buffers=0, counters=0)
        start = torch.zeros(1, dtype=torch.float64)
        replay = Replay(algorithm, schedule, layout, rates, start)
        *_, last = replayed(replay, Pulled(slope, 3.0))
        moved.append(float(last.server))
    found = effective_weights(algorithm, schedule, local=planned.local_steps)
    assert found == pytest.approx(np.array(moved) / sum(moved), abs=1e-10)


class Pulled:
    """Local steps on linear losses, one by one, with a pull to the start model."""

    def __init__(self, slope: torch.Tensor, proximal: float) -> None:
        self.slope, self.proximal = slope, proximal

    def train(self, start: torch.Tensor, work: Work) -> torch.Tensor:
        ends = []
        jobs = zip(start, work.client, work.steps, work.rate, strict=True)
        for row, (begin, client, steps, rate) in enumerate(jobs):
            end = begin.clone()
            for _ in range(int(steps)):
                gradient = self.slope[client] + self.proximal * (end - begin)
                gradient = gradient if work.drift is None else gradient + work.drift[row]
                end = end - float(rate) * gradient
            ends.append(end)
        return torch.stack(ends) if ends else start


def test_a_strong_pull_takes_from_fast_clients_what_deterministic_weights_gave_them() -> None:
    """Their many steps lead no further than the slow clients' few, but are divided as before."""
    keys = {"clients": 100, "fast_fraction": "1/9", "reweight": "deterministic"}
    keys |= {"learning_rate": 0.01, "dataset": "mnist"}
    shares = []
    for proximal in (None, 50.0):
        planned = plan_seed(resolve(make_spec({**keys, "proximal": proximal})), 0)
        shares.append(planned.weights.by(planned.fleet.groups)[0])
    assert shares[0] == pytest.approx(0.108, abs=0.005)
    assert shares[1] == pytest.approx(0.036, abs=0.005)
