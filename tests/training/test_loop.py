"""The reference trainer against training written out with an optimiser."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from favano.data import BatchStream, Preprocessing
from favano.errors import BadInput
from favano.preflight.task import check_fit
from favano.training import FlatModel, LocalRule, LoopTrainer, Task, Work
from favano.training.local_rule import direction


def network() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 5), nn.Tanh(), nn.Linear(5, 3))


def task(images: bool = False) -> Task:
    generator = torch.Generator().manual_seed(2)
    parts = [np.arange(0, 23), np.arange(23, 40)]
    labels = torch.randint(0, 3, (40,), generator=generator)
    batches = BatchStream(parts, batch_size=8, seed=3)
    if images:
        raw = torch.randint(0, 255, (40, 1, 3, 4), generator=generator, dtype=torch.uint8)
        steps = Preprocessing(scale=255.0, crop_padding=1, flip=True)
        return Task(raw, labels, batches, preprocessing=steps)
    features = torch.randn(40, 12, generator=generator, dtype=torch.float64)
    return Task(features, labels, batches)


def test_equals_an_optimiser_step_by_step() -> None:
    data, flat = task(), FlatModel(network(), device="cpu", dtype=torch.float64)
    initial = flat.snapshot()
    start = torch.stack([initial, initial + 0.1, initial])
    work = Work(
        np.array([0, 1, 0]), np.array([0, 2, 5]), np.array([4, 3, 0]), np.array([0.5, 0.2, 1])
    )
    end = LoopTrainer(flat, data, LocalRule()).train(start, work)
    assert torch.equal(end[2], initial)
    for job, (client, first, steps, rate) in enumerate([(0, 0, 4, 0.5), (1, 2, 3, 0.2)]):
        module = network().double()
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.add_(0.1 * job)
        optimizer = torch.optim.SGD(module.parameters(), lr=rate)
        for step in range(first, first + steps):
            chosen = torch.from_numpy(data.batches.indices(client, step))
            optimizer.zero_grad()
            loss = functional.cross_entropy(module(data.features[chosen]), data.labels[chosen])
            torch.autograd.backward(loss)
            optimizer.step()
        expected = torch.cat([parameter.detach().flatten() for parameter in module.parameters()])
        assert torch.allclose(end[job], expected, rtol=1e-12, atol=1e-12)


def test_two_halves_are_one_whole() -> None:
    """A job cut in two at any step ends in the same place: the batch stream goes on."""
    data, flat = task(), FlatModel(network(), device="cpu", dtype=torch.float64)
    trainer, start = LoopTrainer(flat, data, LocalRule()), flat.snapshot()[None]
    rate = np.array([0.3])
    whole = trainer.train(start, Work(np.array([0]), np.array([1]), np.array([7]), rate))
    first = trainer.train(start, Work(np.array([0]), np.array([1]), np.array([4]), rate))
    second = trainer.train(first, Work(np.array([0]), np.array([5]), np.array([3]), rate))
    assert torch.equal(whole, second)
    assert torch.equal(start[0], start[0].clone())


def test_augmented_batches_are_functions_of_client_and_step() -> None:
    data = task(images=True)
    first, _ = data.batch(0, 3, torch.float32)
    data.batch(1, 0, torch.float32)
    again, _ = data.batch(0, 3, torch.float32)
    assert torch.equal(first, again)
    assert first.dtype == torch.float32
    assert float(first.max()) <= 1.0
    steps = BatchStream(data.batches.parts, 8, seed=4)
    other = Task(data.features, data.labels, steps, preprocessing=data.preprocessing)
    assert not torch.equal(other.batch(0, 3, torch.float32)[0], first)


def test_a_proximal_term_pulls_to_the_start() -> None:
    data, flat = task(), FlatModel(network(), device="cpu", dtype=torch.float64)
    start = flat.snapshot()[None]
    work = Work(np.array([0]), np.array([0]), np.array([6]), np.array([0.3]))
    free = LoopTrainer(flat, data, LocalRule()).train(start, work)
    held = LoopTrainer(flat, data, LocalRule(proximal=2.0)).train(start, work)
    assert float((held - start).norm()) < 0.8 * float((free - start).norm())
    gradient, weights, origin = torch.tensor([1.0]), torch.tensor([3.0]), torch.tensor([2.5])
    assert direction(gradient, weights, origin, pull=2.0, correction=None).tolist() == [2.0]
    with pytest.raises(BadInput, match=r"proximal=-1: need a number >= 0"):
        LocalRule(proximal=-1)


def test_a_drift_correction_is_added_to_every_gradient() -> None:
    """One step by hand, and zero is nothing, to the bit."""
    data, flat = task(), FlatModel(network(), device="cpu", dtype=torch.float64)
    start = flat.snapshot()[None]
    trainer = LoopTrainer(flat, data, LocalRule())
    single = (np.array([0]), np.array([0]), np.array([1]), np.array([0.3]))
    five = (np.array([0]), np.array([0]), np.array([5]), np.array([0.3]))
    correction = torch.randn(start.shape, generator=torch.Generator().manual_seed(0)).double()
    moved = trainer.train(start, Work(*single, correction)) - trainer.train(start, Work(*single))
    assert torch.allclose(moved, -0.3 * correction, rtol=1e-12, atol=1e-12)
    none = trainer.train(start, Work(*five, torch.zeros_like(correction)))
    assert torch.equal(none, trainer.train(start, Work(*five)))


def test_a_model_that_does_not_fit_is_refused() -> None:
    data = task()
    small = FlatModel(nn.Linear(12, 2), device="cpu", dtype=torch.float64)
    with pytest.raises(BadInput, match=r"model=Linear: gives \(2,\) outputs, labels need 3"):
        check_fit(small, data, classes=3)
    wrong = FlatModel(nn.Linear(7, 3), device="cpu", dtype=torch.float64)
    with pytest.raises(BadInput, match=r"model=Linear: cannot take a batch of inputs of shape"):
        check_fit(wrong, data, classes=3)
