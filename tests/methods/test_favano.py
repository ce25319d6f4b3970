"""FAVANO: properties F1-F9 of its specification and the reductions P1-P3."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from favano.engine import PlainLoop
from favano.errors import BadInput
from favano.methods.favano import Favano
from favano.methods.favano_delta import FavanoDelta
from favano.methods.fedavg import FedAvg
from favano.methods.weights import (
    Empirical,
    KnownSteps,
    Reweight,
    WeightSource,
    alpha,
    count,
    nothing_seen,
    step_weights,
)
from favano.policies import LeastRecent, Polling, Selection, Uniform, Weighted
from favano.schedule import Schedule, plan
from favano.theory import expected_counts
from favano.timing import ClientSpeeds, Deterministic, client_speeds, two_speeds
from favano.types import Stack
from tests.methods.bound import bound, scheduled, weighed
from tests.problems import (
    Linear,
    answers_of,
    close,
    make_aggregator,
    ones,
    quadratics,
    server_models,
    start_model,
)

CLIENTS = 12


def favano(
    fleet: ClientSpeeds | int = CLIENTS,
    rule: Reweight = "stochastic",
    *,
    selected: int = 4,
    local_steps: int = 6,
) -> Favano:
    return bound(Favano(reweight=rule), fleet, local_steps, selected=selected)


def given(weights: KnownSteps | Empirical, rule: Reweight = "stochastic") -> Favano:
    """Two clients that expect so many steps."""
    return weighed(favano(2, rule, selected=2), weights)


def test_exact_weights_are_those_of_theory() -> None:
    fleet = two_speeds(CLIENTS, seed=1)
    policy = Polling(selected=4, local_steps=6)
    assert favano(fleet).policy() == policy
    positive, mean = expected_counts(policy, fleet)
    expected = favano(fleet).expected
    assert isinstance(expected, KnownSteps)
    assert expected.positive.tolist() == positive.tolist()
    assert expected.mean.tolist() == mean.tolist()


def messages(method: Favano, schedule: Schedule, jobs: slice, start: Stack, end: Stack) -> Stack:
    """u_i written out by hand from the definition."""
    weights = method.expected
    assert isinstance(weights, KnownSteps)
    rows = []
    for row, job in enumerate(range(jobs.start, jobs.stop)):
        client, steps = schedule.client[job], schedule.steps[job]
        divisor = weights.positive[client] * steps
        if method.reweight == "deterministic":
            divisor = weights.mean[client]
        moved = (end[row] - start[row]) / divisor if steps > 0 else torch.zeros_like(end[row])
        rows.append(start[row] + moved)
    return torch.stack(rows)


@pytest.mark.parametrize("rule", ["stochastic", "deterministic"])
def test_f1_f2_p3_server_step_and_mean_model(rule: Reweight) -> None:
    """(s+1) w_t = w_{t-1} + sum u_i; the visited hold w_t, nobody else moves; mu moves by
    -(eta/(n+1)) sum h_i, so that the sum of all n+1 models moves by the messages alone."""
    fleet = two_speeds(CLIENTS, seed=1)
    method = favano(fleet, rule)
    schedule = scheduled(method, 7 * 60, seed=1)
    trainer, initial = quadratics(CLIENTS), start_model()
    server = initial
    held = initial.repeat(CLIENTS, 1)
    aggregator = make_aggregator(method, schedule, initial)
    offsets = schedule.offsets
    saw_no_step = False
    for event in PlainLoop(aggregator, trainer).events():
        if event.version < 0:
            continue
        jobs = slice(int(offsets[event.version]), int(offsets[event.version + 1]))
        clients = schedule.client[jobs]
        start = held[clients]
        end = torch.stack(
            [
                trainer.local(int(i), held[i], int(k), 0.1)
                for i, k in zip(clients, schedule.steps[jobs], strict=True)
            ]
        )
        unbiased = messages(method, schedule, jobs, start, end)
        assert close(5 * event.server, server + unbiased.sum(dim=0))
        before = (server + held.sum(dim=0)) / (CLIENTS + 1)
        held = held.clone()
        held[clients] = event.server
        after = (event.server + held.sum(dim=0)) / (CLIENTS + 1)
        assert close(after - before, (unbiased - start).sum(dim=0) / (CLIENTS + 1))
        spread = event.clients.spread(event.server)
        assert close(spread.mean, after)
        distance = (held - event.server).square().sum()
        assert float(spread.distances[0]) == pytest.approx(float(distance), rel=1e-10)
        potential = (held - after).square().sum() + (event.server - after).square().sum()
        assert float(spread.distances[1]) == pytest.approx(float(potential), rel=1e-9)
        server = event.server
        saw_no_step |= bool((schedule.steps[jobs] == 0).any())
    assert saw_no_step


@pytest.mark.quick("deterministic")
@pytest.mark.parametrize("rule", ["stochastic", "deterministic", "none", "inverse-steps"])
def test_f3_unbiased_on_linear_losses(rule: str) -> None:
    """The mean message is g_i for both rules and both speeds; E[X] g_i without reweighting;
    P g_i when only the number of steps is divided out."""
    fleet = two_speeds(100, seed=5)
    method = favano(fleet, selected=20, local_steps=20)
    schedule = scheduled(method, 7 * 20_000, seed=5)
    used = slice(0, schedule.jobs)
    client, steps = schedule.client[used], schedule.steps[used]
    positive, mean = expected_counts(method.policy(), fleet)
    weights = (
        KnownSteps(ones(100), ones(100)) if rule == "inverse-steps" else KnownSteps(positive, mean)
    )
    kind: Reweight = "stochastic" if rule == "inverse-steps" else rule  # type: ignore[assignment]
    message = steps / alpha(kind, weights, nothing_seen(weights), client, steps)  # times g_i
    for speed in (2.0, 16.0):
        those = fleet.mean[client] == speed
        sample = message[those]
        error = sample.std() / np.sqrt(len(sample))
        member = int(np.flatnonzero(fleet.mean == speed)[0])
        target = {"none": mean[member], "inverse-steps": positive[member]}.get(rule, 1.0)
        assert abs(sample.mean() - target) < 4 * error + 1e-4 * target


def test_f3_variance_formulas() -> None:
    """Var M1 = mu^2 (1/P - 1) + v r / P^2, Var M2 = mu^2 (m2/m1^2 - 1) + v/m1, here with v = 0."""
    fleet = client_speeds(np.full(50, 16.0))
    schedule = scheduled(favano(fleet, selected=10, local_steps=20), 7 * 40_000, seed=2)
    steps = schedule.steps[: schedule.jobs]
    positive, mean = 0.740627, 2.186981
    assert (np.minimum(steps, 1) / positive).var() == pytest.approx(1 / positive - 1, rel=0.02)
    assert (steps / mean).var() == pytest.approx(10.640801 / mean**2 - 1, rel=0.03)


def test_f4_p1_is_synchronous_sgd() -> None:
    """s = n, K = 1, E = 1, P = 1: w_t = w_{t-1} - eta n/(n+1) mean g_i(w_{t-1})."""
    fleet = client_speeds(np.full(CLIENTS, 7.0), Deterministic())
    method = favano(fleet, selected=CLIENTS, local_steps=1)
    trainer, model = quadratics(CLIENTS), start_model()
    models = server_models(method, scheduled(method, 70), trainer, model)
    for after in models[1:]:
        gradients = torch.stack([trainer.gradient(i, model) for i in range(CLIENTS)])
        model = model - 0.1 * CLIENTS / (CLIENTS + 1) * gradients.mean(dim=0)
        assert close(after, model)


def test_f5_p2_is_fedavg_with_a_smaller_server_step() -> None:
    """s = n, E = K: FedAvg with full participation and server step n / ((n+1) K)."""
    steps = 5
    fleet = client_speeds(np.full(CLIENTS, 1.0), Deterministic())
    method = favano(fleet, selected=CLIENTS, local_steps=steps)
    trainer, initial = quadratics(CLIENTS), start_model()
    schedule = scheduled(method, 70)
    assert (schedule.steps == steps).sum() >= schedule.jobs
    models = server_models(method, schedule, trainer, initial)
    smaller = FedAvg(server_learning_rate=CLIENTS / ((CLIENTS + 1) * steps))
    fedavg = bound(smaller, fleet, steps, selected=CLIENTS)
    expected = server_models(fedavg, scheduled(fedavg, 80), trainer, initial)
    assert len(expected) == len(models) == 11
    assert all(close(a, b) for a, b in zip(models, expected, strict=True))


def test_f6_rules_coincide_when_the_step_count_is_constant() -> None:
    fleet = client_speeds(np.full(CLIENTS, 1.0), Deterministic())
    schedule = scheduled(favano(fleet), 200, seed=4)
    trainer, initial = quadratics(CLIENTS), start_model()
    stochastic = server_models(favano(fleet), schedule, trainer, initial)
    deterministic = server_models(favano(fleet, "deterministic"), schedule, trainer, initial)
    assert all(close(a, b) for a, b in zip(stochastic, deterministic, strict=True))
    assert not close(stochastic[-1], stochastic[0], 1e-3)


def test_f7_zero_gradients_leave_everything() -> None:
    method, initial = favano(), start_model()
    flat = Linear(torch.zeros(CLIENTS, 4, dtype=torch.float64))
    models = server_models(method, scheduled(method, 300), flat, initial)
    assert all(close(model, initial) for model in models)


def test_f8_without_reweighting_the_message_is_the_live_model() -> None:
    start = torch.randn(4, 7, dtype=torch.float64)
    end = start + torch.randn(4, 7, dtype=torch.float64)
    method = favano(rule="none")
    state = method.init(torch.zeros(7, dtype=torch.float64))
    updates = answers_of([0, 1, 2, 3], [1, 2, 3, 6], [0] * 4, start, end)
    assert close(method.aggregate(state, updates).model, end.sum(dim=0) / 5)


def test_no_step_is_never_divided() -> None:
    """A client that made no step sends its start model, whatever the rule."""
    start = torch.randn(2, 3, dtype=torch.float64)
    updates = answers_of([0, 1], [0, 0], [0, 0], start, start.clone())
    rules: list[Reweight] = ["stochastic", "deterministic", "none"]
    for rule in rules:
        method = given(KnownSteps(np.array([0.5, 0.9]), np.array([2.0, 0.1])), rule)
        state = method.aggregate(method.init(torch.ones(3, dtype=torch.float64)), updates)
        assert close(state.model, (1 + start.sum(dim=0)) / 3)


def test_empirical_weights_are_running_frequencies_by_group() -> None:
    weights = Empirical(np.array([0, 0, 1]))
    seen = nothing_seen(weights)
    first = alpha("stochastic", weights, seen, np.array([0, 2]), np.array([3, 2]))
    assert first.tolist() == [3.0, 2.0]
    seen = count(weights, seen, np.array([0, 1, 2]), np.array([4, 0, 6]))
    client, steps = np.array([1, 2]), np.array([2, 2])
    assert alpha("stochastic", weights, seen, client, steps) == pytest.approx([2 * 2 / 3, 2.0])
    assert alpha("deterministic", weights, seen, client, steps) == pytest.approx([5 / 3, 3.5])
    assert nothing_seen(weights).contacts.tolist() == [0, 0]


def test_an_update_counts_its_contacts_after_it_has_weighed_them() -> None:
    """The first update of 4 steps is divided by 4 * 1, the second by 4 * (1 + 1) / (1 + 2)."""
    method = given(Empirical(np.zeros(2, dtype=np.int64)))
    start, end = torch.zeros(2, 1, dtype=torch.float64), torch.tensor([[0.0], [4.0]]).double()
    updates = answers_of([0, 1], [0, 4], [0, 0], start, end)  # one of them has made no step
    state = method.aggregate(method.init(torch.zeros(1).double()), updates)
    assert [count.tolist() for count in state.seen] == [[2], [1], [4]]
    assert float(state.model) == pytest.approx(1 / 3)
    again = method.aggregate(state._replace(model=torch.zeros(1).double()), updates)
    assert float(again.model) == pytest.approx(1.5 / 3)
    assert [count.tolist() for count in again.seen] == [[4], [2], [8]]


@pytest.mark.parametrize("rule", ["stochastic", "deterministic"])
def test_f3_unbiased_where_clients_differ_in_k(rule: Reweight) -> None:
    """Two speeds, and 1, 4 or 15 steps at most."""
    fleet, most = two_speeds(12, seed=5), (1, 4, 15) * 4
    method = bound(Favano(reweight=rule), fleet, most, selected=3)
    schedule = scheduled(method, 7 * 20_000, seed=5)
    used, weights = slice(0, schedule.jobs), method.expected
    assert isinstance(weights, KnownSteps)
    client, steps = schedule.client[used], schedule.steps[used]
    assert (steps <= np.array(most)[client]).all()
    message = steps / alpha(rule, weights, nothing_seen(weights), client, steps)  # times g_i
    for who in range(12):
        sample = message[client == who]
        assert abs(sample.mean() - 1) < 4 * sample.std() / np.sqrt(len(sample)) + 1e-4


def test_empirical_weights_are_pooled_over_clients_with_one_law() -> None:
    fleet = two_speeds(12, seed=5)
    method = bound(Favano(weights="empirical"), fleet, (1, 4, 15) * 4, selected=3)
    assert isinstance(method.expected, Empirical)
    pairs = zip(fleet.mean.tolist(), (1, 4, 15) * 4, strict=True)
    together = {(pair, group) for pair, group in zip(pairs, method.expected.group, strict=True)}
    pairs_there, groups = zip(*together, strict=True)
    assert len(together) == len(set(pairs_there)) == len(set(groups)) > 2


def test_empirical_weights_tend_to_the_exact_ones() -> None:
    fleet = two_speeds(100, seed=8)
    method = bound(Favano(weights="empirical"), fleet, 20, selected=20)
    schedule = scheduled(method, 7 * 3000, seed=8)
    weights = method.expected
    assert isinstance(weights, Empirical)
    assert weights.group.tolist() == fleet.groups.tolist()
    used = slice(0, schedule.jobs)
    seen = count(weights, nothing_seen(weights), schedule.client[used], schedule.steps[used])
    positive, mean = expected_counts(method.policy(), fleet)
    everyone, five = np.arange(100), np.full(100, 5)
    assert alpha("stochastic", weights, seen, everyone, five) == pytest.approx(
        positive * 5, rel=0.02
    )
    assert alpha("deterministic", weights, seen, everyone, five) == pytest.approx(mean, rel=0.02)


def test_delta_adds_only_progress() -> None:
    weights = KnownSteps(np.array([0.5, 1.0]), np.array([2.0, 4.0]))
    method = weighed(bound(FavanoDelta(server_learning_rate=0.5), 2), weights)
    start = torch.tensor([[10.0], [20.0]], dtype=torch.float64)
    end = torch.tensor([[14.0], [16.0]], dtype=torch.float64)
    updates = answers_of([0, 1], [2, 4], [0, 0], start, end)
    state = method.aggregate(method.init(torch.ones(1, dtype=torch.float64)), updates)
    assert float(state.model) == pytest.approx(1 + 0.5 * (4 / 1.0 - 4 / 4.0) / 2)


def test_weights_out_of_range_are_refused() -> None:
    with pytest.raises(BadInput, match=r"weights=0.0: need P\(E > 0\) in \(0, 1\]"):
        KnownSteps(np.array([0.0, 1.0]), np.ones(2))
    with pytest.raises(BadInput, match=r"weights=1.5: need P\(E > 0\) in \(0, 1\]"):
        KnownSteps(np.array([0.5, 1.5]), np.ones(2))


def test_buffers_are_averaged_with_the_servers_and_never_reweighted() -> None:
    """Server 2, clients 3 and 10: (2 + 3 + 10) / 3, however small alpha is."""
    weights = KnownSteps(np.array([0.01, 0.5]), np.array([0.1, 0.1]))
    clients, server = torch.tensor([[3.0], [10.0]]), torch.tensor([2.0])
    updates = answers_of([0, 1], [1, 6], [0, 0])
    for method in (given(weights), weighed(bound(FavanoDelta(), 2), weights)):
        assert method.aggregate_buffers(server, clients, updates).tolist() == [5.0]


def test_the_scaled_rate_makes_up_for_the_servers_share() -> None:
    schedule = scheduled(favano(), 70)
    jobs = len(schedule.client)
    scaled = bound(Favano(rate_scale="selected"), CLIENTS, selected=4)
    assert scaled.rates(schedule).tolist() == [1.25] * jobs  # (s + 1) / s with s = 4
    assert favano().rates(schedule).tolist() == [1.0] * jobs


def test_given_weights_are_for_all_for_each_class_or_for_each_client() -> None:
    fleet = client_speeds(np.array([2.0, 16.0, 16.0]))
    for weights, each in (
        ((0.5,), [0.5, 0.5, 0.5]),
        ((0.9, 0.5), [0.9, 0.5, 0.5]),
        ((0.9, 0.5, 0.7), [0.9, 0.5, 0.7]),
    ):
        known = bound(Favano(weights="given", given_weights=weights), fleet).expected
        assert isinstance(known, KnownSteps)
        assert known.positive.tolist() == each
        options = Favano(weights="given", given_weights=weights, reweight="deterministic")
        mean = bound(options, fleet).expected
        assert isinstance(mean, KnownSteps)
        assert mean.mean.tolist() == each
    four = bound(Favano(weights="given", given_weights=(0.5, 0.5, 0.5, 0.5)), fleet)
    with pytest.raises(BadInput, match=r"given_weights=.*: need 1, 2, 3 numbers, found 4"):
        four.init(torch.zeros(1))
    with pytest.raises(BadInput, match="weights=given: requires given_weights"):
        Favano(weights="given")
    with pytest.raises(BadInput, match="weights=empirical: has no effect with reweight=none"):
        Favano(weights="empirical", reweight="none")


@pytest.mark.quick("monte-carlo")
@pytest.mark.parametrize("weights", ["exact", "monte-carlo"])
def test_weights_follow_the_selection(weights: WeightSource) -> None:
    """Clients of one speed that are selected more or less often have other windows."""
    fleet = client_speeds(np.array([16.0, 16, 16, 16]))
    rule = Weighted(weights=(4.0, 4.0, 1.0, 1.0))
    policy = Polling(selected=2, selection=rule, local_steps=4)
    known = step_weights("stochastic", weights, (), policy, fleet)
    assert isinstance(known, KnownSteps)
    often, seldom = known.positive[[0, 2]]
    assert known.positive == pytest.approx([often, often, seldom, seldom])
    drawn = plan(policy, fleet, horizon=70_000, seed=1)
    made = [(drawn.steps[: drawn.jobs] > 0)[drawn.client[: drawn.jobs] == who] for who in (0, 2)]
    for seen, chance in zip(made, (often, seldom), strict=True):
        error = 4 * np.sqrt(chance * (1 - chance) * (1 / len(seen) + 1 / 1000))
        assert seen.mean() == pytest.approx(chance, abs=error)
    assert seldom - often > 0.2


def test_empirical_weights_pool_clients_of_one_law() -> None:
    fleet = client_speeds(np.array([2.0, 2, 2, 16]))

    def groups(rule: Selection) -> list[int]:
        policy = Polling(selected=2, selection=rule)
        known = step_weights("stochastic", "empirical", (), policy, fleet)
        assert isinstance(known, Empirical)
        group: list[int] = known.group.tolist()
        return group

    assert groups(Uniform()) == groups(LeastRecent()) == [0, 0, 0, 1]
    assert groups(Weighted(weights=(1.0, 5.0, 1.0, 1.0))) == [0, 1, 0, 2]
