"""An LSTM as plain products, for many lanes: PyTorch's own takes one model at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

State: TypeAlias = tuple[Tensor, Tensor]

_PARAMETERS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def plain_cell(given: Tensor, recurrent: Tensor, cell: Tensor) -> State:
    """The state after a step, from the parts (B, 4 H) of its gates and the cells (B, H)."""
    taken, kept, new, shown = (given + recurrent).chunk(4, -1)
    cell = kept.sigmoid() * cell + taken.sigmoid() * new.tanh()
    return shown.sigmoid() * cell.tanh(), cell


def plain_walk(given: Tensor, recurrent: Tensor, state: State) -> tuple[Tensor, State]:
    """Hidden states (T, B, H) after each step, and the last state."""
    found = []
    for step in given.unbind():
        state = plain_cell(step, functional.linear(state[0], recurrent), state[1])
        found.append(state[0])
    return torch.stack(found), state


class LaneLSTM(nn.Module):
    """An LSTM (Hochreiter and Schmidhuber 1997) with the parameters of `like`.

    `walk` is replaced where there is a kernel.
    """

    def __init__(self, like: nn.LSTM) -> None:
        super().__init__()
        self.walk: Callable[[Tensor, Tensor, State], tuple[Tensor, State]] = plain_walk
        for name, parameter in like.named_parameters():
            self.register_parameter(name, parameter)
        self._layers, self._hidden, self._bias = like.num_layers, like.hidden_size, like.bias
        self._batch_first = like.batch_first
        self._directions = ("", "_reverse") if like.bidirectional else ("",)

    def forward(self, inputs: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """(B, T, inputs) to the hidden states, and the last states of each layer."""
        sequence = inputs.transpose(0, 1) if self._batch_first else inputs
        places = [(layer, way) for layer in range(self._layers) for way in self._directions]
        if state is None:
            zeros = sequence.new_zeros((len(places), sequence.shape[1], self._hidden))
            state = zeros, zeros
        ends, both = [], []
        for number, (layer, way) in enumerate(places):
            start = state[0][number], state[1][number]
            found, end = self._pass(sequence, start, f"l{layer}{way}", backwards=bool(way))
            ends.append(end)
            both.append(found)
            if len(both) == len(self._directions):
                sequence, both = torch.cat(both, -1), []
        hidden, cells = (torch.stack(parts) for parts in zip(*ends, strict=True))
        return sequence.transpose(0, 1) if self._batch_first else sequence, (hidden, cells)

    def _pass(
        self, sequence: Tensor, state: State, name: str, *, backwards: bool
    ) -> tuple[Tensor, State]:
        """One layer in one direction."""
        parts = (getattr(self, f"{kind}_{name}", None) for kind in _PARAMETERS)
        weight, recurrent, *biases = (cast(Tensor, part) for part in parts)
        bias = biases[0] + biases[1] if self._bias else None
        given = functional.linear(sequence, weight, bias)
        found, end = self.walk(given.flip(0) if backwards else given, recurrent, state)
        return found.flip(0) if backwards else found, end


def with_lane_lstms(module: nn.Module) -> nn.Module:
    """The network with its LSTMs replaced, in place. Those with projections stay."""
    if isinstance(module, nn.LSTM) and not module.proj_size:
        return LaneLSTM(module)
    for name, child in module.named_children():
        setattr(module, name, with_lane_lstms(child))
    return module
