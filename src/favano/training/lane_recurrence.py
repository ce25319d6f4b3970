"""Recurrent layers as plain products, for many lanes: PyTorch's own take one model at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence

State: TypeAlias = tuple[Tensor, ...]  # hidden states, and the cells of an LSTM
Given: TypeAlias = Tensor | State | None  # a state as PyTorch has it; None: zeros
Step: TypeAlias = Callable[[Tensor, Tensor, State], State]
# All steps of an LSTM, from products (T, B, 4 H) of its inputs, recurrent weights, and a state.
Walk: TypeAlias = Callable[[Tensor, Tensor, State], tuple[Tensor, State]]


def lstm_step(given: Tensor, recurrent: Tensor, state: State) -> State:
    """The state after a step, from the products (B, 4 H) of inputs and of hidden states."""
    taken, kept, new, shown = (given + recurrent).chunk(4, -1)
    cell = kept.sigmoid() * state[1] + taken.sigmoid() * new.tanh()
    return shown.sigmoid() * cell.tanh(), cell


def gru_step(given: Tensor, recurrent: Tensor, state: State) -> State:
    """The same for a GRU, from products (B, 3 H)."""
    (reset, kept, new), hidden = given.chunk(3, -1), recurrent.chunk(3, -1)
    new = (new + (reset + hidden[0]).sigmoid() * hidden[2]).tanh()
    return (new + (kept + hidden[1]).sigmoid() * (state[0] - new),)


_STEPS: dict[str, Step] = {  # the last two are plain recurrent layers, of products (B, H)
    "LSTM": lstm_step,
    "GRU": gru_step,
    "tanh": lambda given, recurrent, _: ((given + recurrent).tanh(),),
    "relu": lambda given, recurrent, _: ((given + recurrent).relu(),),
}
_LAYERS = {nn.LSTM.forward: "LSTM", nn.GRU.forward: "GRU", nn.RNN.forward: "RNN"}
_CELLS = {nn.LSTMCell.forward: "LSTM", nn.GRUCell.forward: "GRU", nn.RNNCell.forward: "RNN"}


class Recurrence:
    """The forward pass of a recurrent layer or cell; names are PyTorch's.

    With `walk` there is a faster way to make all steps of a batch.
    """

    def __init__(
        self, layer: nn.RNNBase | nn.RNNCellBase, step: Step, walk: Walk | None = None
    ) -> None:
        self._layer, self._step, self._walk = layer, step, walk

    def of_layer(
        self, input: Tensor | PackedSequence, hx: Given = None
    ) -> tuple[Tensor, Tensor | State]:
        """(T, B, inputs) to the hidden states, and the last states of each layer."""
        layer = self._layer
        assert isinstance(layer, nn.RNNBase)
        if not isinstance(input, Tensor):
            raise TypeError("a packed sequence has other lengths in each lane")
        turned = layer.batch_first and input.ndim == 3  # with two dimensions there is no batch
        sequence = input.transpose(0, 1) if turned else input
        ways = ("", "_reverse") if layer.bidirectional else ("",)
        shape = (layer.num_layers * len(ways), *sequence.shape[1:-1])
        starts = zip(*_start(layer, hx, sequence, shape), strict=True)
        ends: list[State] = []
        for depth in range(layer.num_layers):
            if depth:
                sequence = functional.dropout(sequence, layer.dropout, layer.training)
            passes = [self._pass(sequence, next(starts), f"_l{depth}{way}") for way in ways]
            sequence = torch.cat([hidden for hidden, _ in passes], -1)
            ends += [end for _, end in passes]
        last = tuple(torch.stack(parts) for parts in zip(*ends, strict=True))
        return sequence.transpose(0, 1) if turned else sequence, _as_given(last)

    def of_cell(self, input: Tensor, hx: Given = None) -> Tensor | State:
        """(B, inputs) to the state after one step."""
        start = _start(self._layer, hx, input, input.shape[:-1])
        return _as_given(self._pass(input[None], start, "")[1])

    def _pass(self, sequence: Tensor, state: State, name: str) -> tuple[Tensor, State]:
        """One layer in one direction."""
        layer = self._layer
        weight, recurrent = (getattr(layer, f"weight_{kind}{name}") for kind in ("ih", "hh"))
        bias, later = (getattr(layer, f"bias_{kind}{name}", None) for kind in ("ih", "hh"))
        projection = getattr(layer, f"weight_hr{name}", None)
        if bias is not None and self._step is not gru_step:
            bias, later = bias + later, None  # added once, not in every step
        given, backwards = functional.linear(sequence, weight, bias), name.endswith("reverse")
        if self._walk is not None and projection is None and given.ndim > 2:
            outputs, state = self._walk(given.flip(0) if backwards else given, recurrent, state)
            return outputs.flip(0) if backwards else outputs, state
        steps, hiddens = given.unbind(), []
        for part in reversed(steps) if backwards else steps:
            hidden, *cell = self._step(part, functional.linear(state[0], recurrent, later), state)
            if projection is not None:
                hidden = functional.linear(hidden, projection)
            state = (hidden, *cell)
            hiddens.append(hidden)
        return torch.stack(hiddens[::-1] if backwards else hiddens), state


def with_lane_recurrence(network: nn.Module, lstm: Walk | None = None) -> nn.Module:
    """The network with plain products in its recurrent layers, in place.

    The layers stay what they are but for `forward`. Those with a `forward` of their own keep it.
    """
    for layer in network.modules():
        forward = type(layer).forward
        kind = _LAYERS.get(forward) or _CELLS.get(forward)
        if isinstance(layer, nn.RNNBase | nn.RNNCellBase) and kind:
            step = _STEPS[getattr(layer, "nonlinearity", kind)]
            recurrence = Recurrence(layer, step, lstm if kind == "LSTM" else None)
            layer.forward = recurrence.of_layer if forward in _LAYERS else recurrence.of_cell
    return network


def _start(
    layer: nn.RNNBase | nn.RNNCellBase, state: Given, like: Tensor, shape: tuple[int, ...]
) -> State:
    """The state that is given, or zeros."""
    if state is not None:
        parts = (state,) if isinstance(state, Tensor) else state
        return tuple(part.to(like.dtype) for part in parts)
    width = layer.hidden_size
    hidden = like.new_zeros((*shape, getattr(layer, "proj_size", 0) or width))
    is_lstm = isinstance(layer, nn.LSTM | nn.LSTMCell)
    return (hidden, like.new_zeros((*shape, width))) if is_lstm else (hidden,)


def _as_given(state: State) -> Tensor | State:
    """A state as PyTorch has it: without cells it is a tensor."""
    return state if len(state) > 1 else state[0]
