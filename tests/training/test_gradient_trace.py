"""A trace repeats autograd to the bit, or is not used."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from favano.data import BatchStream
from favano.models import BatchNorm2d, build
from favano.quantisation import Recipe, quantised
from favano.training import (
    NO_TRACE,
    FlatModel,
    GradientTrace,
    Job,
    LocalRule,
    LoopTrainer,
    Loss,
    Task,
    gradient_trace,
    one_thread,
    trace_gradients,
)
from favano.training.task import Batch
from tests.training.clock import Clock, slow

SHAPE, CLASSES, BATCH = (3, 8, 8), 5, 6
PARTS = [np.arange(0, 16), np.arange(16, 32), np.arange(32, 47)]  # batches of 6, 4 and 3


def images(norm: nn.Module) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 4, 3), norm, nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, CLASSES)
    )


class Shared(nn.Module):
    """One layer used twice, one frozen, one never used."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.twice = nn.Linear(192, 7), nn.Linear(7, 7)
        self.frozen, self.last = nn.Linear(7, 7).requires_grad_(False), nn.Linear(7, CLASSES)
        self.unused = nn.Linear(2, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.twice(self.twice(self.first(inputs.flatten(1))).tanh())
        outputs: Tensor = self.last(torch.cat([self.frozen(hidden), hidden]).chunk(2)[0])
        return outputs


class Branches(nn.Module):
    """Goes one way or the other by the values it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(192, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.layer(inputs.flatten(1))
        return outputs if outputs.sum() > 0 else 2 * outputs


class Moody(Branches):
    """Does something else every time it is asked."""

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.layer(inputs.flatten(1))
        return random.random() * outputs


def few_bits(name: str, **keys: object) -> Callable[[], nn.Module]:
    recipe = Recipe(**{"quantised_layers": "all", **keys})  # type: ignore[arg-type]
    return lambda: quantised(NETWORKS[name](), recipe)


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "perceptron": lambda: build("perceptron", input_shape=SHAPE, classes=CLASSES),
    "our BatchNorm": lambda: images(BatchNorm2d(4)),
    "stock BatchNorm": lambda: images(nn.BatchNorm2d(4)),
    "GroupNorm": lambda: images(nn.GroupNorm(2, 4)),
    "shared": Shared,
    "few bits": few_bits("perceptron"),
    "few bits, BatchNorm": few_bits("our BatchNorm", gradient_samples=2),
    "few bits, shared": few_bits("shared", quantised_gradients="weights"),
    "few bits, masked": few_bits("GroupNorm", clipped_gradients="mask"),
}
DOUBTFUL: dict[str, Callable[[], nn.Module]] = {
    "branches": Branches,
    "moody": Moody,
    "dropout": lambda: nn.Sequential(nn.Flatten(), nn.Linear(192, CLASSES), nn.Dropout()),
}


def squares(outputs: Tensor, labels: Tensor) -> Tensor:
    wanted = torch.arange(CLASSES) == labels[:, None]
    return (outputs - wanted.to(outputs.dtype)).square().mean()


def task(dtype: torch.dtype, loss: Loss = functional.cross_entropy) -> Task:
    generator = torch.Generator().manual_seed(2)
    features = torch.randn(47, *SHAPE, generator=generator, dtype=dtype)
    labels = torch.randint(0, CLASSES, (47,), generator=generator)
    return Task(features, labels, BatchStream(PARTS, BATCH, seed=3), loss)


def paying(model: FlatModel, loss: Loss) -> GradientTrace:
    """Autograd takes ten milliseconds longer than a trace: what can be traced is."""
    clock = Clock(look=0.001)
    return GradientTrace(model, slow(loss, clock, 0.01), clock=clock)


def flat(network: Callable[[], nn.Module], dtype: torch.dtype) -> FlatModel:
    torch.manual_seed(1)
    return FlatModel(network(), device="cpu", dtype=dtype)


@pytest.mark.quick(
    "our BatchNorm-*float32-cross_entropy-0.0",
    "stock BatchNorm-*float64-cross_entropy-0.5",
    "shared-*float32-cross_entropy-0.0",
    "few bits-*float64-cross_entropy-0.5",
)
@pytest.mark.parametrize(  # every two of them together
    ("dtype", "loss", "proximal"),
    [
        (torch.float32, functional.cross_entropy, 0.0),
        (torch.float32, squares, 0.5),
        (torch.float64, functional.cross_entropy, 0.5),
        (torch.float64, squares, 0.0),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
@pytest.mark.parametrize("name", NETWORKS)
def test_a_job_ends_where_autograd_ends(
    name: str, dtype: torch.dtype, loss: Loss, proximal: float
) -> None:
    """To the bit, buffers included, with batches that have a trace and batches that have none."""
    model, data, rule = flat(NETWORKS[name], dtype), task(dtype, loss), LocalRule(proximal)
    with one_thread():
        gradient, start = paying(model, loss), model.snapshot()
        assert gradient.prepare([data.batch(client, 0, dtype) for client in (0, 1)])
        assert gradient.prepare([data.batch(client, 2, dtype) for client in (0, 1)])
        assert torch.equal(model.snapshot(), start)  # tracing leaves no trace
        assert not gradient.fill(*data.batch(2, 2, dtype))
        for client in range(3):
            job = Job(0, client, 1, 7, 0.1)
            plain = LoopTrainer(model, data, rule).run(start, job)
            fast = LoopTrainer(model, data, rule, gradient).run(start, job)
            assert torch.equal(plain, fast)
            assert not torch.equal(plain, start)


def test_plain_steps_on_batches_of_one_length_are_one_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Corrected steps are taken one by one."""
    model, data = flat(NETWORKS["our BatchNorm"], torch.float32), task(torch.float32)
    calls: list[int] = []
    descend = GradientTrace.descend

    def counted(gradient: GradientTrace, batches: list[Batch], rate: float) -> bool:
        calls.append(len(batches))
        return descend(gradient, batches, rate)

    monkeypatch.setattr(GradientTrace, "descend", counted)
    with one_thread():
        gradient, start = paying(model, data.loss), model.snapshot()
        assert trace_gradients(gradient, data, 10**9).lengths == (6, 4, 3)
        for rule, expected in ((LocalRule(), [1, 1, 2, 1, 2]), (LocalRule(0.5), [])):
            calls.clear()
            job = Job(0, 0, 1, 7, 0.1)
            plain = LoopTrainer(model, data, rule).run(start, job)
            assert torch.equal(LoopTrainer(model, data, rule, gradient).run(start, job), plain)
            assert calls == expected


@pytest.mark.parametrize("name", DOUBTFUL)
def test_what_cannot_be_repeated_is_left_to_autograd(name: str) -> None:
    model, data = flat(DOUBTFUL[name], torch.float32), task(torch.float32)
    gradient, batches = paying(model, data.loss), [data.batch(0, 0, torch.float32)]
    with one_thread():
        assert not gradient.prepare(batches)
        assert not gradient.fill(*batches[0])


def test_a_loss_with_a_tensor_of_its_own_is_left_to_autograd() -> None:
    """A trace would hold on to the tensor as it was."""
    weight = torch.linspace(1, 2, CLASSES)

    def weighted(outputs: Tensor, labels: Tensor) -> Tensor:
        return functional.cross_entropy(outputs, labels, weight)

    model, data = flat(NETWORKS["perceptron"], torch.float32), task(torch.float32)
    with one_thread():
        assert not paying(model, weighted).prepare([data.batch(0, 0, torch.float32)])


def test_what_pays_is_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    model, data = flat(NETWORKS["perceptron"], torch.float32), task(torch.float32)
    with one_thread():
        gradient = paying(model, data.loss)
        assert trace_gradients(gradient, data, gradient_trace.FEWEST - 1) == NO_TRACE
        report = trace_gradients(gradient, data, gradient_trace.FEWEST)
        assert report.lengths == (6, 4, 3)  # by how often they come
        assert report.seconds > 0
        monkeypatch.setattr(gradient_trace, "FEWEST_EACH", gradient_trace.FEWEST / 3)
        assert trace_gradients(gradient, data, gradient_trace.FEWEST).lengths == (6,)


@pytest.mark.parametrize(
    ("seconds", "lengths"),
    [(0.0, ()), (0.001, (6, 4, 3)), (0.015, (6, 4, 3)), (2 * gradient_trace.HEAVY, ())],
)
def test_a_trace_must_be_faster_and_a_step_not_heavy(
    seconds: float, lengths: tuple[int, ...]
) -> None:
    """By so much autograd takes longer than a trace."""
    model, data, clock = (
        flat(NETWORKS["perceptron"], torch.float32),
        task(torch.float32),
        Clock(0.001),
    )
    gradient = GradientTrace(model, slow(data.loss, clock, seconds), clock=clock)
    with one_thread():
        assert trace_gradients(gradient, data, 10**9).lengths == lengths


def test_a_trace_that_fails_in_the_middle_of_a_job_is_not_used_again() -> None:
    """The job is trained again, by autograd, from where it began."""
    model, data = flat(NETWORKS["our BatchNorm"], torch.float32), task(torch.float32)
    with one_thread():
        gradient, start = paying(model, data.loss), model.snapshot()
        batch = data.batch(0, 0, torch.float32)
        assert gradient.prepare([batch])
        calls, made = gradient._traces[batch[0].shape], []

        def failing(batches: Sequence[Batch], rate: float | None) -> None:
            calls(batches[:1], rate)
            made.append(len(batches))
            if len(made) == 2:
                raise RuntimeError("a kernel that takes no such values")

        gradient._traces[batch[0].shape] = failing
        for rule in (LocalRule(), LocalRule(0.5)):
            job, plain = Job(0, 0, 1, 7, 0.1), LoopTrainer(model, data, rule)
            trainer = LoopTrainer(model, data, rule, gradient)
            assert torch.equal(trainer.run(start, job), plain.run(start, job))
            assert len(made) == 2
            assert not gradient.fill(*batch)
