"""A small transformer (Vaswani et al. 2017) for the next character."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from favano.errors import require

_WIDTH, _HEADS, _LAYERS = 128, 4, 2


class Block(nn.Module):
    """Attention and a perceptron of four times the width, each after a layer norm and added.

    The products are written out, so that they work for many models at once on any device.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.mix = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, inputs: Tensor) -> Tensor:
        """(B, T, width) to the same shape."""
        hidden = inputs + self._attend(self.norm1(inputs))
        added: Tensor = self.narrow(functional.gelu(self.wide(self.norm2(hidden))))
        return hidden + added

    def _attend(self, inputs: Tensor) -> Tensor:
        """softmax(Q K' / sqrt(d)) V for each head; every position sees the whole window."""
        split = self.attention(inputs).unflatten(-1, (3, self.heads, -1))  # (B, T, 3, heads, d)
        query, key, value = split.transpose(1, 3).unbind(2)  # (B, heads, T, d)
        scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
        attended: Tensor = self.mix((scores.softmax(-1) @ value).transpose(1, 2).flatten(-2))
        return attended


class Transformer(nn.Module):
    """Embedded characters and positions, two blocks of width 128, and a linear layer at the end."""

    def __init__(self, length: int, characters: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(characters, _WIDTH)
        self.position = nn.Parameter(torch.randn(length, _WIDTH) * 0.02)
        self.blocks = nn.Sequential(*(Block(_WIDTH, _HEADS) for _ in range(_LAYERS)))
        self.norm, self.output = nn.LayerNorm(_WIDTH), nn.Linear(_WIDTH, characters)

    def forward(self, windows: Tensor) -> Tensor:
        """Logits (B, characters) of the next character after windows (B, T)."""
        hidden = self.blocks(self.embedding(windows.long()) + self.position)
        logits: Tensor = self.output(self.norm(hidden[:, -1]))
        return logits


def transformer(*, input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """The transformer for windows of this length."""
    require(len(input_shape) == 1, "input_shape", input_shape, "need the length of a text")
    return Transformer(input_shape[0], classes)
