"""Networks for texts in stacked lanes against the plain loop: whole numbers are embedded."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from favano.data import BatchStream
from favano.models import build, leaf, transformer
from favano.preflight.task import check_fit
from favano.training import (
    FlatModel,
    LaneStack,
    LocalRule,
    LoopTrainer,
    StackLanes,
    Task,
)

from .test_stack_lanes import check_ends, shifted


class Recurrent(nn.Module):
    """Begins with a state that is trained, and asks the layer what it is like."""

    def __init__(self, make: Callable[..., nn.RNNBase], **how: bool | int | str) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 4)
        self.layer = make(4, 6, 2, batch_first=True, **how)
        both = 2 if self.layer.bidirectional else 1
        width = self.layer.proj_size or 6
        self.start = nn.Parameter(torch.randn(2 * both, 1, width))
        self.last = nn.Linear(both * width, 11)

    def forward(self, texts: Tensor) -> Tensor:
        self.layer.flatten_parameters()
        hidden = self.start.expand(-1, len(texts), -1).contiguous()
        cells = hidden.new_zeros(len(hidden), len(texts), self.layer.hidden_size)
        state = (hidden, cells) if self.layer.mode == "LSTM" else hidden
        states, _ = self.layer(self.embedding(texts.long()), state)
        logits: Tensor = self.last(states.mean(1))
        return logits


class Cells(nn.Module):
    """A GRU cell, an LSTM cell and a plain one, one above the other."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.last = nn.Embedding(11, 4), nn.Linear(6, 11)
        self.low, self.middle, self.high = nn.GRUCell(4, 6), nn.LSTMCell(6, 6), nn.RNNCell(6, 6)

    def forward(self, texts: Tensor) -> Tensor:
        low = middle = high = None
        for letters in self.embedding(texts.long()).unbind(1):
            low = self.low(letters, low)
            middle = self.middle(low, middle)
            high = self.high(middle[0], high)
        logits: Tensor = self.last(high)
        return logits


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "leaf-lstm": partial(build, "leaf-lstm", input_shape=(5,), classes=11),
    "transformer": partial(build, "transformer", input_shape=(5,), classes=11),
    "both ways": partial(Recurrent, nn.LSTM, bidirectional=True),
    "projected": partial(Recurrent, nn.LSTM, proj_size=3),
    "gru": partial(Recurrent, nn.GRU, bidirectional=True),
    "tanh": partial(Recurrent, nn.RNN, bias=False),
    "relu": partial(Recurrent, nn.RNN, nonlinearity="relu"),
    "cells": Cells,
}


@pytest.mark.quick("transformer-cpu", "gru-cpu", "cells-cpu")
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("name", NETWORKS)
def test_texts_in_lanes_equal_the_loop(
    name: str, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaf, "_HIDDEN", 16)
    monkeypatch.setattr(transformer, "_WIDTH", 16)
    torch.manual_seed(0)
    network = NETWORKS[name]()
    flat = FlatModel(network, device=device, dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    texts = torch.randint(0, 11, (90, 5), generator=generator, dtype=torch.uint8).to(device)
    labels = torch.randint(0, 11, (90,), generator=generator).to(device)
    parts = [np.arange(0, 23), np.arange(23, 40), np.arange(40, 90)]
    loss = functional.cross_entropy
    tasks = [Task(texts, labels, BatchStream(parts, 8, seed), loss) for seed in (1, 2)]
    check_fit(flat, tasks[0], classes=11)
    both = [LoopTrainer(flat, task, LocalRule()) for task in tasks]
    check_ends(StackLanes(LaneStack(flat, both, capacity=4)), both, shifted(flat.snapshot()))
