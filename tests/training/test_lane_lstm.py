"""The LSTM of lanes against PyTorch's: same parameters, same results."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from favano.training.lane_lstm import LaneLSTM

STEPS, BATCH = 4, 3


@pytest.mark.parametrize("both_ways", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("given", [False, True], ids=["from zero", "from a state"])
def test_hidden_and_last_states(
    both_ways: bool, batch_first: bool, bias: bool, given: bool
) -> None:
    torch.manual_seed(0)
    layer = nn.LSTM(5, 7, 2, bias=bias, batch_first=batch_first, bidirectional=both_ways)
    inputs = torch.randn((BATCH, STEPS, 5) if batch_first else (STEPS, BATCH, 5))
    shape = (4 if both_ways else 2, BATCH, 7)
    state = (torch.randn(shape), torch.randn(shape)) if given else None
    wanted, (hidden, cells) = layer(inputs, state)
    found, ends = LaneLSTM(layer)(inputs, state)
    for one, other in zip((found, *ends), (wanted, hidden, cells), strict=True):
        torch.testing.assert_close(one, other)


def test_gradients_of_many_lanes() -> None:
    torch.manual_seed(0)
    layer = nn.LSTM(5, 7, 2, batch_first=True)
    lanes = LaneLSTM(layer)
    weights = {
        name: value.detach() + 0.1 * torch.randn(3, *value.shape)
        for name, value in lanes.named_parameters()
    }
    inputs = torch.randn(3, BATCH, STEPS, 5)

    def loss(module: nn.Module, weights: dict[str, Tensor], inputs: Tensor) -> Tensor:
        hidden, _ = functional_call(module, weights, (inputs,))
        return torch.as_tensor(hidden).square().sum()

    found = vmap(grad(lambda *a: loss(lanes, *a)))(weights, inputs)
    for lane in range(3):
        one = {name: value[lane] for name, value in weights.items()}
        wanted = grad(lambda *a: loss(layer, *a))(one, inputs[lane])
        for name, value in wanted.items():
            torch.testing.assert_close(found[name][lane], value)
