"""FedNova: FedAvg with equal steps, and no favour to those who make more."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from favano.methods.accumulation import Accumulation
from favano.methods.clock import ServerClock
from favano.methods.fedavg import FedAvg
from favano.methods.fednova import FedNova
from favano.planning.planned import bind_method
from favano.policies import Rounds
from favano.specification.presets import resolve
from favano.specification.spec import make_spec
from favano.timing import Deterministic, client_speeds, two_speeds
from tests.methods.bound import bound, scheduled
from tests.problems import Linear, answers_of, close, quadratics, server_models, start_model

CUT = ServerClock(deadline=20.0, at_deadline="take")


def test_with_equal_steps_it_is_fedavg() -> None:
    fleet = two_speeds(8, seed=0)
    nova, fedavg = (bound(method, fleet, 4, selected=3) for method in (FedNova(), FedAvg()))
    schedule = scheduled(nova, 900)
    trainer, initial = quadratics(8), start_model()
    models = server_models(nova, schedule, trainer, initial)
    plain = server_models(fedavg, schedule, trainer, initial)
    assert all(close(a, b) for a, b in zip(models, plain, strict=True))


def test_where_clients_differ_in_k_progress_is_averaged_per_step() -> None:
    """w <- w - rate tau_eff sum_i p_i g_i, with tau_eff = sum_i p_i K_i, on linear losses."""
    random = np.random.default_rng(2)
    most, samples = random.integers(1, 9, 5), random.integers(1, 50, 5).astype(float)
    fleet = client_speeds(random.uniform(1, 5, 5), Deterministic())
    nova = bound(
        FedNova(sample_weights=True), fleet, tuple(most.tolist()), selected=5, samples=samples
    )
    schedule = scheduled(nova, 300)
    assert schedule.updates > 3
    initial = torch.zeros(5, dtype=torch.float64)
    last = server_models(nova, schedule, Linear(torch.eye(5, dtype=torch.float64)), initial)[-1]
    share = samples / samples.sum()
    expected = -0.1 * schedule.updates * (share @ most) * share
    assert last.tolist() == pytest.approx(expected.tolist())


def test_one_update_by_hand() -> None:
    """tau = 2 and 6, p = 1/4 and 3/4: tau_eff = 5, progress 5 (1/4 * 4/2 + 3/4 * 12/6) = 10."""
    options = FedNova(sample_weights=True, server_learning_rate=0.5)
    method = bound(options, 3, samples=np.array([1.0, 9.0, 3.0]))
    start = torch.zeros(2, 1, dtype=torch.float64)
    end = torch.tensor([[4.0], [12.0]], dtype=torch.float64)
    updates = answers_of([0, 2], [2, 6], [0, 0], start, end)
    state = method.aggregate(method.init(start[0]), updates)
    assert float(state.model) == pytest.approx(0.5 * 10)


@pytest.mark.parametrize(
    ("rule", "effective"),
    [
        (Accumulation(proximal=1.0), 6.0),
        (Accumulation(momentum=0.9), None),
        (Accumulation(momentum=0.9, nesterov=True), None),
        (Accumulation(0.3, 0.5), 6.0),
    ],
)
def test_jobs_of_10_and_2_steps_count_alike_under_any_local_rule(
    rule: Accumulation, effective: float | None
) -> None:
    """Clients with gradients (1, 0) and (0, 1), trained by PyTorch's own SGD at rate 0.5."""
    rate, taus, ends = 0.5, (10, 2), []
    for client, tau in enumerate(taus):
        weights = torch.zeros(2, dtype=torch.float64, requires_grad=True)
        sgd = torch.optim.SGD([weights], lr=rate, momentum=rule.momentum, nesterov=rule.nesterov)
        for _ in range(tau):
            sgd.zero_grad()
            pull = rule.proximal / 2 * weights.square().sum()
            torch.autograd.backward(weights[client] + pull)
            sgd.step()
        ends.append(weights.detach())
    method = bound(FedNova(), 2, 10, accumulation=rule)
    start = torch.zeros(2, 2, dtype=torch.float64)
    updates = answers_of([0, 1], list(taus), [0, 0], start, torch.stack(ends), rate=rate)
    moved = -method.aggregate(method.init(start[0]), updates).model
    assert float(moved[0]) == pytest.approx(float(moved[1]))
    far = -torch.stack(ends).sum().item() / 2  # what FedAvg moves, half each
    assert float(moved.sum()) == pytest.approx(rate * effective if effective else far)


def test_training_says_how_gradients_add_up() -> None:
    spec = resolve(make_spec({"algorithm": "fednova", "proximal": 0.1, "momentum": 0.9}))
    assert bind_method(spec, 0).context.accumulation == Accumulation(0.1, 0.9)
    for keys in ({"optimiser": "adam"}, {"momentum": 0.9, "optimiser_state": "kept"}):
        spec = resolve(make_spec({"algorithm": "fednova", **keys}))
        assert bind_method(spec, 0).context.accumulation.plain


def test_a_deadline_cuts_jobs_short_and_their_slopes_count_alike() -> None:
    """Steps of 1, 2, 5 and 30 by time 20: 8, 8, 4 and none; the last client has nothing to say."""
    fleet = client_speeds(np.array([1.0, 2.0, 5.0, 30.0]), Deterministic())
    nova = bound(FedNova(), fleet, 8, selected=4, clock=CUT)
    fedavg = bound(FedAvg(), fleet, 8, selected=4, clock=CUT)
    assert nova.policy() == Rounds(selected=4, local_steps=8, deadline=20.0, at_deadline="take")
    schedule = scheduled(nova, 100)
    assert schedule.time.tolist() == [23.0 * k for k in range(1, 6)]
    assert schedule.client[: schedule.jobs].tolist() == [0, 1, 2] * 5
    assert schedule.steps[: schedule.jobs].tolist() == [8, 8, 4] * 5
    slope = torch.eye(4, dtype=torch.float64)
    initial = torch.zeros(4, dtype=torch.float64)
    even = server_models(nova, schedule, Linear(slope), initial)[-1]
    assert even[:3].tolist() == pytest.approx([-0.1 * 5 * (20 / 3) / 3] * 3)
    odd = server_models(fedavg, schedule, Linear(slope), initial)[-1]
    assert odd[:3].tolist() == pytest.approx([-0.1 * 5 * tau / 3 for tau in (8, 8, 4)])
    dropping = bound(FedNova(), fleet, 8, selected=4, clock=ServerClock(deadline=20.0))
    dropped = scheduled(dropping, 100)
    assert dropped.client[: dropped.jobs].tolist() == [0, 1] * 5
    assert dropped.wasted_steps.tolist() == [4] * 5
    assert schedule.wasted_steps.tolist() == [0] * 5
