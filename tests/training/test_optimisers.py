"""Local optimisers against `torch.optim`, and jobs whose client keeps its state or begins anew."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import SGD, Adam, AdamW

from favano.aggregation import Aggregator, ClientMemory
from favano.engine import PlainLoop
from favano.methods.fedavg import FedAvg
from favano.training import FlatModel, GradientTrace, Job, LocalRule, LoopTrainer, Work
from favano.training.optimisers import Optimiser, clipped
from tests.methods.bound import bound, scheduled
from tests.training.test_loop import network, task

ADAM = Optimiser("adam", momentum=0.9, beta2=0.999, epsilon=1e-8)
SETTINGS: dict[str, tuple[Optimiser, Callable[[Iterable[Tensor]], torch.optim.Optimizer]]] = {
    "sgd": (Optimiser(weight_decay=0.1), lambda p: SGD(p, lr=0.1, weight_decay=0.1)),
    "momentum": (
        Optimiser(momentum=0.9, weight_decay=0.01),
        lambda p: SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
    ),
    "nesterov": (
        Optimiser(momentum=0.8, nesterov=True),
        lambda p: SGD(p, lr=0.1, momentum=0.8, nesterov=True),
    ),
    "adam": (replace(ADAM, weight_decay=0.3), lambda p: Adam(p, lr=0.1, weight_decay=0.3)),
    "adam, other numbers": (
        Optimiser("adam", momentum=0.5, beta2=0.9, epsilon=1e-3),
        lambda p: Adam(p, lr=0.1, betas=(0.5, 0.9), eps=1e-3),
    ),
    "adamw": (
        replace(ADAM, name="adamw", weight_decay=0.2),
        lambda p: AdamW(p, lr=0.1, weight_decay=0.2),
    ),
}
STEPS = 60


def by_torch(
    make: Callable[[Iterable[Tensor]], torch.optim.Optimizer], clip: float | None
) -> Tensor:
    """The parameters after training that is written out with PyTorch's own optimiser."""
    data, module = task(), network().double()
    optimizer = make(module.parameters())
    for step in range(STEPS):
        chosen = torch.from_numpy(data.batches.indices(0, step))
        optimizer.zero_grad()
        loss = functional.cross_entropy(module(data.features[chosen]), data.labels[chosen])
        torch.autograd.backward(loss)
        if clip is not None:
            nn.utils.clip_grad_norm_(module.parameters(), clip)
        optimizer.step()
    return torch.cat([parameter.detach().flatten() for parameter in module.parameters()])


def trainer(optimiser: Optimiser) -> LoopTrainer:
    flat = FlatModel(network(), device="cpu", dtype=torch.float64)
    return LoopTrainer(flat, task(), LocalRule(optimiser=optimiser))


@pytest.mark.parametrize("clip", [None, 0.2])
@pytest.mark.parametrize("name", SETTINGS)
def test_numbers_are_those_of_torch(name: str, clip: float | None) -> None:
    optimiser, make = SETTINGS[name]
    mine = trainer(replace(optimiser, clip=clip))
    end = mine.run(mine.model.snapshot(), Job(0, 0, 0, STEPS, 0.1))
    assert torch.allclose(end, by_torch(make, clip), rtol=1e-10, atol=1e-10)


def test_every_kind_differs() -> None:
    """Otherwise the comparison above would prove little."""
    ends = [by_torch(make, clip) for _, make in SETTINGS.values() for clip in (None, 0.2)]
    apart = torch.cdist(torch.stack(ends), torch.stack(ends)) + 100 * torch.eye(len(ends))
    assert float(apart.min()) > 1e-3


def test_kept_state_goes_on_from_job_to_job() -> None:
    """A job cut in two ends in the same place, if vectors and number of steps are handed on."""
    for optimiser, _ in SETTINGS.values():
        mine = trainer(replace(optimiser, state="kept"))
        start = torch.zeros(mine.width, dtype=torch.float64)
        start[: mine.model.layout.size] = mine.model.snapshot()
        whole = mine.run(start, Job(0, 0, 0, 7, 0.1))
        half = mine.run(start, Job(0, 0, 0, 4, 0.1))
        assert torch.equal(mine.run(half, Job(0, 0, 4, 3, 0.1, steps_before=4)), whole)
        assert len(whole) == mine.model.layout.size * (1 + optimiser.form.vectors)


def test_rounds_of_one_client_that_keeps_its_state_are_one_long_training() -> None:
    """FedAvg hands the client its own model back, and the aggregator its vectors and steps."""
    method = bound(FedAvg(), 1, local_steps=3, selected=1)
    schedule = scheduled(method, 100)
    for optimiser, _ in SETTINGS.values():
        mine = trainer(replace(optimiser, state="kept"))
        initial, rates = mine.model.snapshot(), np.full(len(schedule.client), 0.1)
        kept = mine.rule.kept
        layout = mine.model.layout
        memory = ClientMemory(method, layout, kept=kept)
        run = Aggregator(method, schedule, layout, rates, initial, memory=memory)
        *_, last = PlainLoop(run, mine).events()
        alone = trainer(optimiser)
        whole = alone.run(initial, Job(0, 0, 0, schedule.used_steps, 0.1))
        assert schedule.updates > 5
        assert torch.allclose(last.server, whole, rtol=1e-12, atol=1e-12)


def test_fresh_state_begins_anew_in_each_job() -> None:
    """Without momentum nothing is forgotten; with it, a job cut in two ends elsewhere."""
    for optimiser, _ in SETTINGS.values():
        mine = trainer(optimiser)
        start = mine.model.snapshot()
        whole = mine.run(start, Job(0, 0, 0, 7, 0.1))
        halves = mine.run(mine.run(start, Job(0, 0, 0, 4, 0.1)), Job(0, 0, 4, 3, 0.1))
        assert len(whole) == len(start)
        assert torch.equal(halves, whole) == (optimiser.form.vectors == 0)


def test_a_start_model_with_its_memory_is_not_changed() -> None:
    mine = trainer(replace(ADAM, state="kept"))
    start = torch.rand(1, mine.width, dtype=torch.float64)
    before, ones = start.clone(), np.array([1])
    mine.train(start, Work(ones, ones, ones + 2, np.array([0.1]), steps_before=ones))
    assert torch.equal(start, before)


def test_gradients_come_from_the_trace_with_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    for optimiser, _ in SETTINGS.values():
        plain = trainer(optimiser)
        gradient = GradientTrace(plain.model, plain.task.loss, clock=lambda: 0.0)
        assert gradient._trace(plain.task.batch(0, 0, torch.float64))
        fill = Mock(wraps=gradient.fill)
        monkeypatch.setattr(gradient, "fill", fill)
        start, job = plain.model.snapshot(), Job(0, 0, 0, 5, 0.1)
        assert torch.equal(replace(plain, traced=gradient).run(start, job), plain.run(start, job))
        assert fill.call_count == 5


def test_only_long_gradients_are_clipped() -> None:
    """Each row by its own norm, over all parameters."""
    rows = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]], dtype=torch.float64)
    shortened = clipped(rows, 1.0)
    assert torch.allclose(shortened[0], rows[0] / 5, rtol=1e-6)
    assert torch.equal(shortened[1:], rows[1:])


def test_plain_sgd_is_recognised() -> None:
    """It has a path of its own, with the same bits as before."""
    assert Optimiser().plain
    assert LocalRule().plain
    for other in (Optimiser(momentum=0.1), Optimiser(weight_decay=0.1), Optimiser(clip=1.0), ADAM):
        assert not other.plain
        assert not LocalRule(optimiser=other).plain
    assert not LocalRule(proximal=0.1).plain
    assert LocalRule(proximal=0.1).refinement is None
