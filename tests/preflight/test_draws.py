"""What draws otherwise than by dropout is refused, and looking for it leaves no trace."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from threading import Thread

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import favano
from favano.data import BatchStream
from favano.errors import BadInput
from favano.preflight.task import check_fit
from favano.training import FlatModel, Loss, Task

OWN = torch.Generator()
ASKED, DRAWN = SimpleQueue[bool](), SimpleQueue[None]()


class Around(nn.Module):
    """A linear layer whose output goes through a function."""

    def __init__(self, after: Callable[[nn.Module, Tensor], Tensor]) -> None:
        super().__init__()
        self.layer, self.after = nn.Linear(6, 6), after
        self.drop = nn.Dropout()

    def forward(self, inputs: Tensor) -> Tensor:
        return self.after(self, self.layer(inputs))


class Sequence(nn.Module):
    """A layer that works on sequences, on its inputs as three of two numbers."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer, self.last = layer, nn.Linear(6, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.layer(inputs.view(-1, 3, 2))
        output: Tensor = self.last((hidden[0] if isinstance(hidden, tuple) else hidden).flatten(1))
        return output


def encoder(dropout: float) -> nn.Module:
    return nn.TransformerEncoderLayer(2, 1, 4, dropout=dropout, batch_first=True)


def masked(module: nn.Module, values: Tensor) -> Tensor:
    return values * torch.empty_like(values).bernoulli_(0.5)


@torch.library.custom_op(
    "favano_tests::drawn_beside", mutates_args=(), schema="(Tensor x) -> Tensor"
)
def drawn_beside(values: Tensor) -> Tensor:
    """An operation that lasts until the other thread has drawn."""
    ASKED.put(True)
    DRAWN.get(timeout=600)
    return values.clone()


drawn_beside.register_autograd(lambda _, gradient: gradient)


@pytest.fixture
def other_thread() -> Iterator[None]:
    """A thread that draws by every generator that threads share, whenever it is asked to."""

    def draw() -> None:
        while ASKED.get():
            random.random()
            np.random.rand()  # noqa: NPY002
            torch.rand(1)
            DRAWN.put(None)

    thread = Thread(target=draw)
    thread.start()
    yield
    ASKED.put(False)
    thread.join()


REFUSED: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "rand": (lambda: Around(lambda m, v: v + torch.rand(6)), "in evaluation mode by aten.rand"),
    "in place": (lambda: Around(masked), "in evaluation mode by aten.bernoulli_"),
    "own generator": (
        lambda: Around(lambda m, v: v + torch.rand(6, generator=OWN) if m.training else v),
        "in training by aten.rand.generator",
    ),
    "rrelu": (lambda: Around(lambda m, v: functional.rrelu(v, training=m.training)), "in training"),
    "Python": (
        lambda: Around(lambda m, v: v * random.random() if m.training else v),
        "in training by the generator of Python or NumPy",
    ),
    "NumPy": (
        lambda: Around(lambda m, v: v * np.random.rand()),  # noqa: NPY002
        "in evaluation mode by the generator of Python or NumPy",
    ),
    "dropout in evaluation": (
        lambda: Around(lambda m, v: functional.dropout(v)),
        "in evaluation mode by aten",
    ),
    "dropout that is computed again": (
        lambda: Around(lambda m, v: checkpoint(m.drop, v, use_reentrant=False)),
        "in training by aten",
    ),
}


def task(loss: Loss = functional.cross_entropy) -> Task:
    features, labels = torch.randn(9, 6), torch.arange(9) % 3
    return Task(features, labels, BatchStream([np.arange(9)], 4, seed=0), loss)


@pytest.mark.parametrize(("make", "rule"), REFUSED.values(), ids=REFUSED)
def test_what_draws_otherwise_is_refused(
    make: Callable[[], nn.Module], rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threading, "active_count", lambda: 1)  # earlier tests may leave some
    model = FlatModel(make(), device="cpu")
    with pytest.raises(
        BadInput, match=f"^model=.*: draws random numbers {rule}.* use only dropout of torch.nn"
    ):
        check_fit(model, task(), classes=3)


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Linear(6, 3),
        lambda: nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3), nn.Dropout(0.0)),
        lambda: Sequence(nn.LSTM(2, 2, 2, batch_first=True)),
        lambda: Sequence(encoder(0.0)),
    ],
)
def test_a_network_that_does_not_draw_is_left_as_it_is(make: Callable[[], nn.Module]) -> None:
    """Its steps are those of PyTorch, without anything in between."""
    model = FlatModel(make(), device="cpu")
    check_fit(model, task(), classes=3)
    assert model.draws is None
    assert not model.dropout


def test_looking_for_draws_leaves_model_and_generators_as_they_were() -> None:
    module = nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3), nn.Dropout())
    model, data = FlatModel(module, device="cpu"), task()
    model.module.eval()
    start, states = model.snapshot(), (torch.get_rng_state(), random.getstate())
    check_fit(model, data, classes=3)
    assert model.dropout
    assert torch.equal(model.snapshot(), start)
    assert not model.gradient.any()
    assert not model.module.training
    assert torch.equal(torch.get_rng_state(), states[0])
    assert random.getstate() == states[1]


def test_a_loss_may_draw_by_dropout_and_not_otherwise() -> None:
    def smoothed(output: Tensor, labels: Tensor) -> Tensor:
        return functional.cross_entropy(functional.dropout(output, 0.2), labels)

    def noisy(output: Tensor, labels: Tensor) -> Tensor:
        return functional.cross_entropy(output + torch.randn_like(output), labels)

    model = FlatModel(nn.Linear(6, 3), device="cpu")
    check_fit(model, task(smoothed), classes=3)
    assert model.dropout
    with pytest.raises(BadInput, match=r"in training by aten.randn_like"):
        check_fit(FlatModel(nn.Linear(6, 3), device="cpu"), task(noisy), classes=3)


def test_a_network_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model, calls = FlatModel(nn.Linear(6, 3), device="cpu"), []
    model.module.register_forward_hook(lambda *_: calls.append(0))
    check_fit(model, task(), classes=3)
    first = len(calls)
    check_fit(model, task(), classes=3)
    assert (first, len(calls)) == (5, 6)


def test_one_sample_is_enough() -> None:
    """Two go through it, for the sake of BatchNorm."""
    model = FlatModel(nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3)), device="cpu")
    data = task()
    single = Task(data.features, data.labels, BatchStream([np.arange(1)], 4, seed=0))
    check_fit(model, single, classes=3)


def test_a_generator_that_nobody_knows_of_shows_in_the_outputs() -> None:
    model = FlatModel(
        Around(lambda m, v: v * float(os.urandom(2)[0]) if m.training else v), device="cpu"
    )
    features, labels = torch.randn(8, 6), torch.arange(8) % 6
    task = Task(features, labels, BatchStream([np.arange(8)], 4, 0))
    with pytest.raises(BadInput, match="gives different outputs for the same weights and inputs"):
        check_fit(model, task, 6)


@pytest.mark.usefixtures("other_thread")
@pytest.mark.parametrize(
    "last", [lambda: nn.Linear(6, 3), lambda: Sequence(encoder(0.0))], ids=["linear", "attention"]
)
def test_nobody_is_refused_for_what_another_thread_draws(last: Callable[[], nn.Module]) -> None:
    """As Flower's heartbeats do: in the trial, and in every job of a whole simulation."""
    network = nn.Sequential(Around(lambda m, v: drawn_beside(v)), last())
    x, y = torch.randn(40, 6), torch.arange(40) % 3
    problem = favano.Problem(network, train=(x, y), test=(x, y), split="iid", batch_size=8)
    result = favano.simulate(
        "fedavg",
        problem,
        favano.Fleet(clients=2),
        selected=2,
        local_steps=3,
        horizon=60.0,
        engine="loop",
    )
    assert result.rows[-1].local_steps > 0


@pytest.mark.usefixtures("other_thread")
@pytest.mark.parametrize(
    ("noise", "rule"),
    [
        (lambda: torch.rand(6), "model=.* draws random numbers in evaluation mode by aten.rand"),
        (random.random, "model=.* gives different outputs for the same weights and inputs"),
        (np.random.rand, "model=.* gives different outputs for the same weights and inputs"),
    ],
    ids=["PyTorch", "Python", "NumPy"],
)
def test_a_network_that_draws_is_refused_beside_another_thread(
    noise: Callable[[], Tensor | float], rule: str
) -> None:
    model = FlatModel(Around(lambda m, v: drawn_beside(v) + noise()), device="cpu")
    with pytest.raises(BadInput, match=rule):
        check_fit(model, task(), classes=3)


@pytest.mark.usefixtures("other_thread")
def test_a_loss_that_draws_is_refused_beside_another_thread() -> None:
    def noisy(output: Tensor, labels: Tensor) -> Tensor:
        return functional.cross_entropy(output, labels) * random.random()

    with pytest.raises(BadInput, match="loss=noisy: gives different values for the same outputs"):
        check_fit(FlatModel(nn.Linear(6, 3), device="cpu"), task(noisy), classes=3)
