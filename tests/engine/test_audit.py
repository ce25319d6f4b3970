"""Effective weights: FAVANO is fair, arrival order is not, and the numbers are exact."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from favano.aggregation import Aggregator
from favano.engine import PlainLoop, audit, stretch_weights, weigh
from favano.engine.audit import LocalSteps
from favano.methods import AnyMethod, our_methods
from favano.methods.accumulation import Accumulation
from favano.methods.asyncsgd import AsyncSGD
from favano.methods.clock import ServerClock
from favano.methods.favano import Favano
from favano.methods.fedavg import FedAvg
from favano.methods.fednova import FedNova
from favano.planning.planned import plan_seed
from favano.policies import Polling
from favano.schedule import plan
from favano.timing import ClientSpeeds, Deterministic, client_speeds, two_speeds
from favano.training import Layout, Work
from tests.effective_weights import effective_weights
from tests.methods.bound import any_method, bound, scheduled
from tests.problems import Linear, Remembering, server_models
from tests.specs import complete, read_by


def test_equal_what_linear_losses_measure() -> None:
    """Independently: give one client a slope, the others none, and see how far the model moves."""
    method = bound(Favano(), two_speeds(8, seed=1), 4, selected=3)
    schedule = scheduled(method, 300, seed=1)
    weight = effective_weights(any_method(method), schedule)
    moved = []
    for client in range(8):
        slope = torch.zeros(8, 1, dtype=torch.float64)
        slope[client] = -1.0
        final = server_models(
            method, schedule, Linear(slope), torch.zeros(1, dtype=torch.float64), rate=1.0
        )[-1]
        moved.append(float(final))
    assert weight == pytest.approx(np.array(moved) / sum(moved), abs=1e-12)
    assert weight.sum() == pytest.approx(1)


@pytest.mark.parametrize("rule", [Accumulation(momentum=0.9), Accumulation(proximal=0.5)])
def test_fednova_weighs_jobs_of_10_and_2_steps_alike(rule: Accumulation) -> None:
    """By its own rule of local steps; FedAvg does not."""
    fleet, local = client_speeds(np.array([2.0, 10.0]), Deterministic()), LocalSteps(None, rule)
    cut = ServerClock(deadline=20.0, at_deadline="take")
    nova = any_method(bound(FedNova(), fleet, 10, clock=cut, accumulation=rule))
    schedule = scheduled(nova, 100)
    assert sorted(set(schedule.steps.tolist())) == [2, 10]
    assert effective_weights(nova, schedule, local).tolist() == pytest.approx([0.5, 0.5])
    fedavg = any_method(bound(FedAvg(), fleet, 10, clock=cut))
    assert effective_weights(fedavg, schedule, local)[0] != pytest.approx(0.5, abs=1e-3)


@pytest.mark.parametrize("at_once", [1, 3, 8])
def test_many_clients_are_weighed_a_few_at_a_time(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    half = FedAvg(server_learning_rate=0.5)
    method = any_method(bound(half, two_speeds(8, seed=1), 2, selected=3))
    schedule = scheduled(method, 400, seed=1)
    whole = effective_weights(method, schedule)
    monkeypatch.setattr(audit, "_COLUMNS_AT_ONCE", at_once)
    assert effective_weights(method, schedule).tolist() == whole.tolist()


def test_favano_is_fair_and_plain_averaging_of_arrivals_is_not() -> None:
    fleet = two_speeds(60, seed=2)
    slow = fleet.mean == 16
    fair = any_method(bound(Favano(), fleet, 20, selected=12))
    schedule = scheduled(fair, 7 * 2000, seed=2)
    share = effective_weights(fair, schedule)[slow].sum()
    assert share == pytest.approx(slow.mean(), abs=0.02)
    raw = any_method(bound(Favano(reweight="none"), fleet, 20, selected=12))
    assert effective_weights(raw, schedule)[slow].sum() < 0.12
    each = any_method(bound(AsyncSGD(assignment="same", latency="none"), fleet))
    biased = effective_weights(each, scheduled(each, 300, seed=2))
    assert biased[slow].sum() < 0.1


def rounds_of_two(fleet: ClientSpeeds) -> AnyMethod:
    return any_method(bound(FedAvg(), fleet, 3, selected=2))


def test_fedavg_counts_participation() -> None:
    method = rounds_of_two(two_speeds(6, seed=0))
    schedule = scheduled(method, 3000)
    contacts = np.bincount(schedule.client[: schedule.jobs], minlength=6)
    weight = effective_weights(method, schedule)
    assert weight == pytest.approx(contacts / contacts.sum())


SMALL: dict[str, object] = {"clients": 8, "selected": 3, "local_steps": 4, "horizon": 300.0}
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
    {"algorithm": "asofed", "memory_decay": 0.5, "delay_logarithm": "none"},
]


@pytest.mark.quick("quafl", "aafl", "favano-deterministic", "fedbuff-3-reset")
@pytest.mark.parametrize("keys", CASES, ids=lambda keys: "-".join(map(str, keys.values())))
def test_weights_are_what_linear_losses_measure_for_every_method(
    keys: dict[str, object],
) -> None:
    """One client has a slope, the others none: how far the model moves is that client's weight."""
    planned = plan_seed(complete(**read_by({**SMALL, **keys})), 1)
    method, schedule = planned.method, planned.schedule
    assert schedule.updates > 0
    moved = []
    for client in range(8):
        slope = torch.zeros(8, 1, dtype=torch.float64)
        slope[client] = -1.0
        start = torch.full((1,), 5.0, dtype=torch.float64)  # weights do not depend on where
        moved.append(float(server_models(method, schedule, Linear(slope), start, 1.0)[-1]) - 5.0)
    measured = np.array(moved) / sum(moved)
    assert effective_weights(method, schedule) == pytest.approx(measured, abs=1e-10)


@pytest.mark.quick("favano-delta", "scaffold", "favano-empirical", "asofed-0.5-none")
@pytest.mark.parametrize("keys", CASES, ids=lambda keys: "-".join(map(str, keys.values())))
def test_stretches_add_up_to_the_whole(keys: dict[str, object]) -> None:
    """For every method, whatever it makes of old answers; and they weigh about the same."""
    planned = plan_seed(complete(**read_by({**SMALL, "horizon": 3000.0, **keys})), 1)
    method, schedule = planned.method, planned.schedule
    each = np.arange(8)
    weights = stretch_weights(method, schedule, each, weigh(method, schedule, each).stretches)
    assert weights.sum(axis=0) == pytest.approx(effective_weights(method, schedule), abs=1e-10)
    stretches = weights.sum(axis=1)
    assert len(stretches) > 5
    assert stretches.max() < 0.3


def test_stretches_of_a_method_that_adds_are_equally_long() -> None:
    """FedAvg, hand-counted: the share of a stretch is that of its updates."""
    fleet = two_speeds(6, seed=0)
    method = rounds_of_two(fleet)
    schedule = scheduled(method, 6000)
    stretches = weigh(method, schedule, fleet.groups).stretches
    weights = stretch_weights(method, schedule, fleet.groups, stretches)
    assert len(weights) == 20
    updates = weights.sum(axis=1) * schedule.updates
    assert updates == pytest.approx(updates.round())
    assert np.abs(updates - schedule.updates / 20).max() <= 1


def test_late_models_differ_where_each_is_mostly_one_clients() -> None:
    """FedAsync that puts nine tenths of the newest answer into its model, however stale."""
    shared = {"clients": 40, "horizon": 900.0, "fast_fraction": 0.5}
    keys = {"staleness": "constant", "mixing": 0.9, "halve_mixing_at": 0}
    newest = plan_seed(complete(algorithm="fedasync", **shared, **keys), 0)
    method, schedule, group = newest.method, newest.schedule, newest.fleet.groups
    late = weigh(method, schedule, group).late
    of_groups = np.bincount(group, effective_weights(method, schedule))
    assert late[-1] == pytest.approx(of_groups)
    assert late.std(axis=0).min() > 0.05  # now one client's model, now another's
    fair = plan_seed(complete(**shared), 0)
    steady = weigh(fair.method, fair.schedule, group).late
    assert steady.std(axis=0).max() < 0.03


def test_groups_are_sums_of_their_clients() -> None:
    fleet = two_speeds(8, seed=1)
    method = any_method(bound(Favano(), fleet, 4, selected=3))
    schedule = scheduled(method, 300, seed=1)
    each, both = (weigh(method, schedule, group) for group in (np.arange(8), fleet.groups))
    assert each.stretches.tolist() == both.stretches.tolist()
    apart, together = (
        stretch_weights(method, schedule, group, both.stretches)
        for group in (np.arange(8), fleet.groups)
    )
    pairs = [(each.final, both.final), (each.late, both.late), (apart, together)]
    for ones, sums in pairs:
        for group in (0, 1):
            members = ones[..., fleet.groups == group]
            assert sums[..., group] == pytest.approx(members.sum(axis=-1), abs=1e-12)


def test_nothing_happened() -> None:
    fleet = two_speeds(6, seed=0)
    schedule = plan(Polling(selected=2, local_steps=3), fleet, horizon=5, seed=0)
    assert schedule.updates == 0
    method = rounds_of_two(fleet)
    weights = weigh(method, schedule, fleet.groups)
    assert not weights.final.any()
    assert not weights.late.any()
    assert not stretch_weights(method, schedule, fleet.groups, weights.stretches).any()


@pytest.mark.quick("asyncsgd", "fedprox")
@pytest.mark.parametrize("name", [name for name in our_methods() if name not in GROWING])
def test_the_local_rule_is_part_of_it(name: str) -> None:
    """A pull to the start and decaying rates: again what linear losses measure."""
    local = {"proximal": 3.0, "learning_rate": 0.1, "rate_decay": True}
    planned = plan_seed(complete(**read_by({**SMALL, "algorithm": name, **local})), 1)
    method, schedule = planned.method, planned.schedule
    rates = planned.rates(schedule)
    moved = []
    for client in range(8):
        slope = torch.zeros(8, 1, dtype=torch.float64)
        slope[client] = -1.0
        layout = Layout(parameters=1, buffers=0, counters=0)
        start = torch.zeros(1, dtype=torch.float64)
        aggregator = Aggregator(method, schedule, layout, rates, start)
        pulled = Pulled(slope, 3.0)
        remembering = Remembering(Linear(slope), method.local_step, 1, proximal=3.0)
        *_, last = PlainLoop(aggregator, remembering if method.memory else pulled).events()
        moved.append(float(last.server))
    weights = effective_weights(method, schedule, local=planned.local_steps)
    assert weights == pytest.approx(np.array(moved) / sum(moved), abs=1e-10)


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
                gradient = gradient if work.correction is None else gradient + work.correction[row]
                end = end - float(rate) * gradient
            ends.append(end)
        return torch.stack(ends) if ends else start


def test_a_strong_pull_takes_from_fast_clients_what_deterministic_weights_gave_them() -> None:
    """Their many steps lead no further than the slow clients' few, but are divided as before."""
    keys: dict[str, object]
    keys = {"clients": 100, "fast_fraction": "1/9", "reweight": "deterministic"}
    keys |= {"learning_rate": 0.01, "dataset": "mnist"}
    shares = []
    for proximal in (None, 50.0):
        planned = plan_seed(complete(**keys, proximal=proximal), 0)
        shares.append(planned.weights.by(planned.fleet.groups).final[0])
    assert shares[0] == pytest.approx(0.108, abs=0.005)
    assert shares[1] == pytest.approx(0.036, abs=0.005)
