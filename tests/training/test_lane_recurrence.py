"""Recurrent layers of lanes against PyTorch's: same parameters, same results."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from favano.training.lane_recurrence import with_lane_recurrence

STEPS, BATCH, INPUTS, HIDDEN = 4, 3, 5, 7

LAYERS: dict[str, Callable[..., nn.Module]] = {
    "lstm": nn.LSTM,
    "projected": partial(nn.LSTM, proj_size=2),
    "gru": nn.GRU,
    "tanh": nn.RNN,
    "relu": partial(nn.RNN, nonlinearity="relu"),
}
CELLS: dict[str, Callable[..., nn.Module]] = {
    "lstm": nn.LSTMCell,
    "gru": nn.GRUCell,
    "tanh": nn.RNNCell,
    "relu": partial(nn.RNNCell, nonlinearity="relu"),
}


def flat(output: object) -> list[Tensor]:
    """All tensors of what a layer returns."""
    if isinstance(output, Tensor):
        return [output]
    assert isinstance(output, tuple)
    return [tensor for part in output for tensor in flat(part)]


def check_equal(layer: nn.Module, inputs: Tensor, state: object) -> None:
    """A layer with plain products gives what PyTorch's own gives."""
    plain = with_lane_recurrence(deepcopy(layer))
    actual, wanted = (flat(module(input=inputs, hx=state)) for module in (plain, layer))
    for tensor, other in zip(actual, wanted, strict=True):
        torch.testing.assert_close(tensor, other, rtol=1e-12, atol=1e-12)


def state_of(layer: nn.Module, *shape: int) -> object:
    """A state for a layer or a cell."""
    width = getattr(layer, "proj_size", 0) or HIDDEN
    hidden, cells = torch.randn(*shape, width).double(), torch.randn(*shape, HIDDEN).double()
    return (hidden, cells) if isinstance(layer, nn.LSTM | nn.LSTMCell) else hidden


@pytest.mark.quick(
    "one-False-False-True-lstm",
    "one-False-True-False-projected",
    "one-False-True-True-gru",
    "one-True-False-False-tanh",
    "one-True-False-True-relu",
    "one-True-True-True-lstm",
    "batch-False-False-False-projected",
    "batch-False-False-True-gru",
    "batch-False-True-False-tanh",
    "batch-False-True-True-relu",
    "batch-True-False-True-lstm",
    "batch-True-True-False-projected",
    "batch-True-True-True-gru",
)
@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("both_ways", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("batch", [(), (BATCH,)], ids=["one", "batch"])
def test_hidden_and_last_states(
    kind: str, both_ways: bool, batch_first: bool, bias: bool, batch: tuple[int, ...]
) -> None:
    torch.manual_seed(0)
    make = partial(LAYERS[kind], INPUTS, HIDDEN, 2, bias=bias, batch_first=batch_first)
    layer = make(bidirectional=both_ways).double()
    inputs = torch.randn(*((*batch, STEPS) if batch_first else (STEPS, *batch)), INPUTS).double()
    check_equal(layer, inputs, None)
    check_equal(layer, inputs, state_of(layer, 4 if both_ways else 2, *batch))


@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("batch", [(), (BATCH,)], ids=["one", "batch"])
def test_cells(kind: str, bias: bool, batch: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    cell = CELLS[kind](INPUTS, HIDDEN, bias=bias).double()
    inputs = torch.randn(*batch, INPUTS).double()
    check_equal(cell, inputs, None)
    check_equal(cell, inputs, state_of(cell, *batch))


def last_loss(network: nn.Module, weights: dict[str, Tensor], inputs: Tensor) -> Tensor:
    """A number that depends on all that a layer returns."""
    tensors = flat(functional_call(network, weights, (inputs,)))
    return torch.stack([part.square().sum() for part in tensors]).sum()


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        *((make, (STEPS, BATCH, INPUTS)) for make in LAYERS.values()),
        *((make, (BATCH, INPUTS)) for make in CELLS.values()),
    ],
    ids=[*LAYERS, *(f"{kind} cell" for kind in CELLS)],
)
def test_gradients_of_many_lanes(make: Callable[..., nn.Module], shape: tuple[int, ...]) -> None:
    layer = make(INPUTS, HIDDEN).double()
    generator = torch.Generator().manual_seed(0)
    draw = partial(torch.randn, generator=generator, dtype=torch.float64)
    lanes = with_lane_recurrence(deepcopy(layer))
    weights = {name: 0.4 * draw(3, *value.shape) for name, value in lanes.named_parameters()}
    inputs = draw(3, *shape)
    gradients = vmap(grad(partial(last_loss, lanes)))(weights, inputs)
    for lane in range(3):
        own = {name: value[lane] for name, value in weights.items()}
        wanted = grad(partial(last_loss, layer))(own, inputs[lane])
        for name, value in wanted.items():
            torch.testing.assert_close(gradients[name][lane], value, rtol=1e-10, atol=1e-10)


def test_layers_keep_their_names_and_numbers() -> None:
    """Networks ask layers for their sizes; a layer with a `forward` of its own keeps it."""

    class Doubled(nn.GRU):
        def forward(self, inputs: Tensor) -> Tensor:  # type: ignore[override]
            return 2 * inputs

    network = with_lane_recurrence(nn.Sequential(nn.GRU(2, 3), Doubled(2, 3)))
    assert isinstance(network, nn.Sequential)
    assert isinstance(network[0], nn.GRU)
    assert network[0].num_layers == 1
    assert torch.equal(network[1](torch.ones(2)), torch.full((2,), 2.0))
