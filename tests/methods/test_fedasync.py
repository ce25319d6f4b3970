"""FedAsync: mixing by hand, the last model wins (P10), and alpha that never compounds."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from favano.errors import BadInput
from favano.methods import make_method, our_methods
from favano.methods.card import card
from favano.methods.fedasync import FedAsync
from favano.policies import Buffered
from favano.timing import Trace, traced_fleet, two_speeds
from tests.methods.bound import bound, scheduled
from tests.problems import answers_of, close, quadratics, server_models, start_model


def test_p10_with_full_mixing_the_last_model_wins() -> None:
    fleet = two_speeds(7, seed=2)
    method = bound(FedAsync(mixing=1.0, halve_mixing_at=0, staleness="constant"), fleet)
    assert method.policy() == Buffered(
        buffer=1, local_steps=3, hand_out="flush", concurrency=7, latency="client"
    )
    schedule = scheduled(method, 200, seed=2)
    trainer = quadratics(7)
    models = server_models(method, schedule, trainer, start_model())
    assert schedule.updates > 50
    assert schedule.staleness.max() > 3
    for update in range(schedule.updates):
        begin = models[int(schedule.start_version[update]) + 1]
        received = trainer.local(int(schedule.client[update]), begin, 3, 0.1)
        assert torch.equal(models[update + 1], received)


def test_three_arrivals_by_hand() -> None:
    """One step a job, no latency: client 0 at 2 and 4, client 1 at 5, from the initial model."""
    fleet = traced_fleet(Trace((np.array([2.0]), np.array([5.0]))))
    options = FedAsync(mixing=0.6, halve_mixing_at=2, staleness="polynomial:0.5", latency="none")
    method = bound(options, fleet, local_steps=1)
    schedule = scheduled(method, 5.5)
    assert schedule.client[:3].tolist() == [0, 0, 1]
    assert schedule.staleness.tolist() == [0, 0, 2]
    trainer, w0 = quadratics(2), start_model()
    models = server_models(method, schedule, trainer, w0)
    w1 = 0.4 * w0 + 0.6 * trainer.local(0, w0, 1, 0.1)
    w2 = 0.7 * w1 + 0.3 * trainer.local(0, w1, 1, 0.1)
    late = 0.3 * 3**-0.5
    w3 = (1 - late) * w2 + late * trainer.local(1, w0, 1, 0.1)
    assert all(close(a, b) for a, b in zip(models, [w0, w1, w2, w3], strict=True))


def test_the_weight_is_made_from_the_base_value_each_time() -> None:
    method = bound(FedAsync(mixing=0.8, halve_mixing_at=800, staleness="hinge:10:4"))
    weights = [
        method.weights(answers_of([0], [3], [tau], version=version))[0]
        for version, tau in ((5, 0), (6, 6), (7, 0), (798, 4), (799, 4), (5000, 0))
    ]
    assert weights == pytest.approx([0.8, 0.8 / 21, 0.8, 0.8, 0.4, 0.4])


def test_by_algorithm_1_a_fresh_update_is_one_step_old() -> None:
    """t - tau = 1 if the model came from w_{t-1}: alpha (1 + 1)^(-1/2)."""
    method = bound(FedAsync(mixing=0.8, staleness="polynomial:0.5", staleness_from_one=True))
    weights = [method.weights(answers_of([0], [3], [tau]))[0] for tau in (0, 3)]
    assert weights == pytest.approx([0.8 / 2**0.5, 0.8 / 5**0.5])
    assert "t - tau" in card(our_methods()["fedasync"])


def test_the_update_that_makes_the_given_server_step_is_the_first_with_half_the_weight() -> None:
    """Server steps are numbered as in the history: the first update makes step 1."""
    for halved_at, expected in ((1, [0.3, 0.3, 0.3]), (2, [0.6, 0.3, 0.3]), (3, [0.6, 0.6, 0.3])):
        method = bound(FedAsync(mixing=0.6, halve_mixing_at=halved_at, staleness="constant"))
        updates = [answers_of([0], [3], [0], version=version) for version in range(3)]
        assert [method.weights(answer)[0] for answer in updates] == expected


def test_buffers_are_mixed_with_the_same_weight() -> None:
    method = bound(FedAsync(mixing=0.5, staleness="polynomial:1"))
    updates = answers_of([0], [3], [1])
    average = method.aggregate_buffers(torch.tensor([4.0]), torch.tensor([[8.0]]), updates)
    assert average.tolist() == [5.0]


def test_answers_that_are_too_old_are_dropped() -> None:
    fleet = traced_fleet(Trace((np.array([1.0]), np.array([30.0]))))
    method = bound(FedAsync(latency="none", max_staleness=4), fleet, local_steps=1)
    schedule = scheduled(method, 100)
    assert set(schedule.client[: schedule.jobs].tolist()) == {0}
    assert schedule.wasted_steps.sum() == 3


def test_wrong_numbers_are_refused() -> None:
    with pytest.raises(BadInput, match=r"mixing=1\.5: need less than or equal to 1"):
        FedAsync(mixing=1.5)
    with pytest.raises(BadInput, match="staleness=linear: need constant, polynomial:A"):
        FedAsync(staleness="linear")
    with pytest.raises(BadInput, match="buffer=2: is a key of fedbuff, not of fedasync"):
        make_method("fedasync", {"buffer": 2})
