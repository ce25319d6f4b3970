"""The paper's "shallow neural network" for MNIST: one hidden layer of 32 units."""

from __future__ import annotations

import math

from torch import Tensor, nn
from torch.nn import functional


class Perceptron(nn.Module):
    """Flatten, linear, ReLU, linear; 784-32-10 on MNIST, 25,450 parameters."""

    def __init__(self, input_shape: tuple[int, ...], classes: int, hidden: int = 32) -> None:
        super().__init__()
        self.hidden = nn.Linear(math.prod(input_shape), hidden)
        self.output = nn.Linear(hidden, classes)

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits (B, classes) of inputs (B, ...)."""
        activations: Tensor = self.output(functional.relu(self.hidden(inputs.flatten(1))))
        return activations


def perceptron(*, input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """The perceptron with PyTorch's default initialisation."""
    return Perceptron(input_shape, classes)
