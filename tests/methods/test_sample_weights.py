"""Clients weighed by their samples: n p_i times a delta, and nothing where all have as many."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from favano.methods import AnyMethod, our_methods
from favano.methods.fedavg import FedAvg
from favano.methods.fedbuff import FedBuff
from favano.methods.method import ClientUpdates
from favano.methods.quafl import Quafl
from favano.methods.scaffold import Scaffold
from favano.options import options_of
from tests.methods.bound import bound, scheduled

SAMPLES = np.array([10.0, 30.0, 50.0, 30.0])  # n p_i = 1/3, 1, 5/3, 1
SCALE = SAMPLES / 30.0
WEIGHING = [name for name, kind in our_methods().items() if "sample_weights" in options_of(kind)]
BY_DELTA = ["favano", "favano-delta", "fedbuff", "asyncsgd", "asyncsgd-adaptive", "asofed"]


def method_of(name: str, samples: np.ndarray = SAMPLES, **options: object) -> AnyMethod:
    return bound(our_methods()[name](**options), len(samples), 3, samples=samples)  # type: ignore[arg-type]


def one_update(client: int, delta: float = 1.0) -> ClientUpdates:
    """One client makes 2 steps from 0.5, from the newest version."""
    start = torch.full((1, 3), 0.5, dtype=torch.float64)
    each, none = np.array([client]), np.array([0])
    return ClientUpdates(each, none + 2, none, np.full(1, 0.1), 0, start, start + delta)


def moved(method: AnyMethod, client: int, delta: float) -> float:
    """How far the delta of a client moves the server."""
    state = method.init(torch.full((3,), 0.5, dtype=torch.float64))
    without = method.aggregate(state, one_update(client, 0.0)).model
    return float((method.aggregate(state, one_update(client, delta)).model - without)[0])


@pytest.mark.parametrize("name", BY_DELTA)
@pytest.mark.parametrize("client", range(4))
def test_a_delta_counts_by_samples(name: str, client: int) -> None:
    alike, weighed = method_of(name), method_of(name, sample_weights=True)
    once = moved(alike, client, 1.0)
    assert once > 0
    assert moved(weighed, client, 1.0) == pytest.approx(once * SCALE[client])


@pytest.mark.parametrize("name", WEIGHING)
def test_equal_samples_change_nothing(name: str) -> None:
    equal = np.full(4, 7.0)
    alike, weighed = method_of(name, equal), method_of(name, equal, sample_weights=True)
    assert moved(weighed, 1, 1.0) == pytest.approx(moved(alike, 1, 1.0), abs=1e-12)


def test_a_buffer_of_all_clients_is_fedavg_of_all() -> None:
    """P6 with samples: (1/n) sum_i n p_i delta_i = sum_i p_i delta_i."""
    start = torch.zeros(4, 2, dtype=torch.float64)
    end = torch.arange(8.0, dtype=torch.float64).reshape(4, 2) ** 2
    none = np.zeros(4, dtype=np.int64)
    all_four = ClientUpdates(np.arange(4), none + 3, none, np.full(4, 0.1), 0, start, end)
    models = []
    for kind in (FedBuff(buffer=4, sample_weights=True), FedAvg(sample_weights=True)):
        method = bound(kind, 4, 3, selected=4, samples=SAMPLES)
        models.append(method.aggregate(method.init(start[0]), all_four).model)
    buffered, averaged = models
    assert torch.allclose(buffered, averaged)
    assert not torch.allclose(models[0], end.mean(0))


def test_quafl_scales_the_steps_of_its_clients() -> None:
    plain, weighed = (
        bound(Quafl(sample_weights=by), 4, 3, samples=SAMPLES) for by in (False, True)
    )
    schedule = scheduled(plain, 200)
    ratio = weighed.rates(schedule) / plain.rates(schedule)
    assert ratio == pytest.approx(SCALE[schedule.client])


def test_the_control_variate_is_the_weighted_mean_of_those_of_clients() -> None:
    """SCAFFOLD: c = sum_i p_i c_i at all times."""
    method = bound(Scaffold(sample_weights=True), 4, 3, selected=2, samples=SAMPLES)
    state = method.init(torch.zeros(3, dtype=torch.float64))
    for version, clients in enumerate(([0, 2], [1, 2], [3, 0])):
        start = state.model.expand(2, 3)
        end = start + torch.tensor([[1.0], [-3.0]], dtype=torch.float64) * (version + 1)
        steps, none = np.array([3, 2]), np.zeros(2, dtype=np.int64)
        rate = np.full(2, 0.1)
        updates = ClientUpdates(np.array(clients), steps, none, rate, version, start, end)
        state = method.aggregate(state, updates)
    share = SAMPLES / SAMPLES.sum()
    mean = sum(share[client] * variate for client, variate in state.variates.items())
    assert torch.allclose(state.control, mean)
    assert state.control.abs().max() > 0


@pytest.mark.parametrize("name", WEIGHING)
def test_the_card_says_how_samples_count(name: str) -> None:
    text = " ".join((our_methods()[name].__doc__ or "").split())
    assert "share of all samples" in text or "by samples" in text or "N_i" in text
