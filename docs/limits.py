"""What an H200 allows: bytes and floating-point operations of a local step over its rates.

The limit of a network is the smaller of two speeds: that at which its numbers could pass through
memory, each pass counted once, and that at which its products could be made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

Precision: TypeAlias = Literal["tf32", "bf16"]

BATCH = 128
BANDWIDTH = 4.3e12  # bytes per second; a large copy, measured
FLOPS: dict[Precision, float] = {"tf32": 4.9e14, "bf16": 7.9e14}  # data sheet; measured
BYTES: dict[Precision, int] = {"tf32": 4, "bf16": 2}  # of a number between two layers

# Passes over the output of a convolution. Forward: it is written, read for mean and variance, read
# and written by the normalisation, read by the next layer. Backward: inputs and gradient are read
# for the gradient of the weights; gradients are read and written for that of the inputs; the
# normalisation reads both for its sums, then reads both again and writes.
PASSES = 14
# Passes over the weights, in float32: forward, backward, and gradient, step and result.
WEIGHT_PASSES = 5
# A kernel makes whole steps of the perceptron: it reads the bytes of images and the weights twice,
# and writes the weights.
WHOLE_INPUT_PASSES, WHOLE_WEIGHT_PASSES = 2, 3


class Network(NamedTuple):
    """What one image takes in a step; forward and backward."""

    flops: float
    passing: float  # numbers that pass through memory
    weights: int
    raw: int = 0  # bytes of the data set that are read
    weight_passes: int = WEIGHT_PASSES


class Convolution(NamedTuple):
    """A layer; `side` is the width and height of its output."""

    inputs: int
    outputs: int
    kernel: int
    side: int

    @property
    def weights(self) -> int:
        """Number of weights."""
        return self.inputs * self.outputs * self.kernel**2

    @property
    def activations(self) -> int:
        """Numbers in the output."""
        return self.outputs * self.side**2


def residual(stem: Convolution, side: int, widths: Sequence[int], blocks: int) -> list[Convolution]:
    """The convolutions of a residual network whose first stage has images of this side."""
    return [stem, *_stages(side, widths, blocks)]


def _stages(side: int, widths: Sequence[int], blocks: int) -> Iterator[Convolution]:
    inputs = widths[0]
    for stage, width in enumerate(widths):
        for _ in range(blocks):
            yield Convolution(inputs, width, 3, side >> stage)
            yield Convolution(width, width, 3, side >> stage)
            if inputs != width:
                yield Convolution(inputs, width, 1, side >> stage)
            inputs = width


def convolutional(layers: Sequence[Convolution]) -> Network:
    """A network of convolutions, each with a normalisation; the last layer is negligible."""
    products = sum(layer.weights * layer.side**2 for layer in layers)
    return Network(
        flops=6 * products,  # a product and a sum, three times: forward and both gradients
        passing=PASSES * sum(layer.activations for layer in layers),
        weights=sum(layer.weights for layer in layers),
    )


PERCEPTRON = Network(
    4 * 784 * 32 + 6 * 32 * 10, 0, 25_450, WHOLE_INPUT_PASSES * 784, WHOLE_WEIGHT_PASSES
)
RESNET20 = convolutional(residual(Convolution(3, 16, 3, 32), 32, (16, 32, 64), 3))
RESNET18 = convolutional(residual(Convolution(3, 64, 7, 32), 16, (64, 128, 256, 512), 2))


NETWORKS = {"perceptron": PERCEPTRON, "resnet20": RESNET20, "resnet18": RESNET18}


class Limit(NamedTuple):
    """The most images per second, and what sets it."""

    images: float
    by: Literal["memory", "products"]


def step_bytes(network: Network, precision: Precision) -> float:
    """Bytes that pass through memory in one step of one client."""
    weights = network.weight_passes * BYTES["tf32"] * network.weights
    return BATCH * (BYTES[precision] * network.passing + network.raw) + weights


def limit(network: Network, precision: Precision) -> Limit:
    """The most that an H200 could do."""
    memory = BATCH * BANDWIDTH / step_bytes(network, precision)
    products = FLOPS[precision] / network.flops
    return Limit(memory, "memory") if memory < products else Limit(products, "products")
