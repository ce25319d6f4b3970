"""The networks of the comparison on a GPU in `jax.numpy`, as functions of a tree of parameters.

Each entry of `NETWORKS` makes the parameters and returns the function from parameters and images
(B, C, H, W) to scores (B, 10). Layers are those of the PyTorch networks that favano trains: same
shapes, same number of parameters. BatchNorm uses the statistics of its mini-batch and keeps no
running ones, which is less work than favano's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Tree = dict[str, "jax.Array | Tree"]
Scores = Callable[[Tree, jax.Array], jax.Array]
CLASSES = 10


@dataclass(frozen=True)
class Network:
    """Initial parameters, what they make of images, and the images' shape."""

    parameters: Callable[[np.random.Generator], Tree]
    scores: Scores
    image: tuple[int, int, int]


def uniform(generator: np.random.Generator, fan_in: int, *shape: int) -> jax.Array:
    """Uniform within one over the root of the fan-in, as PyTorch's layers."""
    bound = fan_in**-0.5
    return jnp.asarray(generator.uniform(-bound, bound, shape), jnp.float32)


def linear(generator: np.random.Generator, inputs: int, outputs: int) -> Tree:
    return {
        "w": uniform(generator, inputs, inputs, outputs),
        "b": uniform(generator, inputs, outputs),
    }


def through(layer: Tree, inputs: jax.Array) -> jax.Array:
    """A linear layer."""
    return inputs @ layer["w"] + layer["b"]


def perceptron(generator: np.random.Generator) -> Tree:
    return {"hidden": linear(generator, 784, 32), "classes": linear(generator, 32, CLASSES)}


def perceptron_scores(parameters: Tree, images: jax.Array) -> jax.Array:
    flat = images.reshape(len(images), -1)
    return through(parameters["classes"], jax.nn.relu(through(parameters["hidden"], flat)))


def filters(generator: np.random.Generator, inputs: int, outputs: int, size: int) -> jax.Array:
    return uniform(generator, inputs * size * size, size, size, inputs, outputs)


def convolved(images: jax.Array, weight: jax.Array, stride: int = 1) -> jax.Array:
    """A convolution of images (B, H, W, C), padded as PyTorch does."""
    pad = weight.shape[0] // 2
    return lax.conv_general_dilated(
        images,
        weight,
        (stride, stride),
        [(pad, pad), (pad, pad)],
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )


def convnet(generator: np.random.Generator) -> Tree:
    return {
        "first": {"w": filters(generator, 1, 32, 5), "b": uniform(generator, 25, 32)},
        "second": {"w": filters(generator, 32, 64, 5), "b": uniform(generator, 800, 64)},
        "hidden": linear(generator, 64 * 49, 512),
        "classes": linear(generator, 512, CLASSES),
    }


def convnet_scores(parameters: Tree, images: jax.Array) -> jax.Array:
    hidden = images.transpose(0, 2, 3, 1)
    for name in ("first", "second"):
        hidden = jax.nn.relu(convolved(hidden, parameters[name]["w"]) + parameters[name]["b"])
        hidden = lax.reduce_window(hidden, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    hidden = hidden.reshape(len(images), -1)
    return through(parameters["classes"], jax.nn.relu(through(parameters["hidden"], hidden)))


def lstm(generator: np.random.Generator, width: int = 64) -> Tree:
    return {
        "input": linear(generator, 28, 4 * width),
        "state": linear(generator, width, 4 * width),
        "classes": linear(generator, width, CLASSES),
    }


def lstm_scores(parameters: Tree, images: jax.Array) -> jax.Array:
    rows = through(parameters["input"], images[:, 0]).transpose(1, 0, 2)
    width = rows.shape[-1] // 4

    def step(carry: tuple[jax.Array, jax.Array], row: jax.Array):
        state, cell = carry
        gates = row + through(parameters["state"], state)
        enter, forget, value, leave = jnp.split(gates, 4, axis=-1)
        cell = jax.nn.sigmoid(forget) * cell + jax.nn.sigmoid(enter) * jnp.tanh(value)
        return (jax.nn.sigmoid(leave) * jnp.tanh(cell), cell), None

    zeros = jnp.zeros((len(images), width))
    (state, _), _ = lax.scan(step, (zeros, zeros), rows)
    return through(parameters["classes"], state)


def normal(width: int) -> Tree:
    return {"scale": jnp.ones(width), "shift": jnp.zeros(width)}


def transformer(generator: np.random.Generator, width: int = 64) -> Tree:
    def layer() -> Tree:
        return {
            "query_key_value": linear(generator, width, 3 * width),
            "together": linear(generator, width, width),
            "wide": linear(generator, width, 2 * width),
            "narrow": linear(generator, 2 * width, width),
            "norm_1": normal(width),
            "norm_2": normal(width),
        }

    return {
        "rows": linear(generator, 28, width),
        "layer_1": layer(),
        "layer_2": layer(),
        "classes": linear(generator, width, CLASSES),
    }


def layer_norm(layer: Tree, inputs: jax.Array) -> jax.Array:
    centred = inputs - inputs.mean(-1, keepdims=True)
    scaled = centred * lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    return scaled * layer["scale"] + layer["shift"]


def attended(layer: Tree, inputs: jax.Array, heads: int = 4) -> jax.Array:
    batch, length, width = inputs.shape
    parts = through(layer["query_key_value"], inputs).reshape(batch, length, 3, heads, -1)
    query, key, value = parts[:, :, 0], parts[:, :, 1], parts[:, :, 2]
    products = jnp.einsum("bqhd,bkhd->bhqk", query, key) * (width / heads) ** -0.5
    mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(products), value)
    return through(layer["together"], mixed.reshape(batch, length, width))


def transformer_scores(parameters: Tree, images: jax.Array) -> jax.Array:
    hidden = through(parameters["rows"], images[:, 0])
    for name in ("layer_1", "layer_2"):
        layer = parameters[name]
        hidden = layer_norm(layer["norm_1"], hidden + attended(layer, hidden))
        wide = jax.nn.relu(through(layer["wide"], hidden))
        hidden = layer_norm(layer["norm_2"], hidden + through(layer["narrow"], wide))
    return through(parameters["classes"], hidden.mean(1))


STAGES = ((16, 1), (32, 2), (64, 2))


def resnet20(generator: np.random.Generator) -> Tree:
    parameters: Tree = {"stem": {"w": filters(generator, 3, 16, 3), **normal(16)}}
    inputs = 16
    for stage, (outputs, _) in enumerate(STAGES):
        for block in range(3):
            layers: Tree = {
                "first": {"w": filters(generator, inputs, outputs, 3), **normal(outputs)},
                "second": {"w": filters(generator, outputs, outputs, 3), **normal(outputs)},
            }
            if inputs != outputs:
                layers["shortcut"] = {
                    "w": filters(generator, inputs, outputs, 1),
                    **normal(outputs),
                }
            parameters[f"stage_{stage}_block_{block}"] = layers
            inputs = outputs
    return parameters | {"classes": linear(generator, 64, CLASSES)}


def batch_norm(layer: Tree, inputs: jax.Array) -> jax.Array:
    centred = inputs - inputs.mean((0, 1, 2))
    scaled = centred * lax.rsqrt((centred**2).mean((0, 1, 2)) + 1e-5)
    return scaled * layer["scale"] + layer["shift"]


def resnet20_scores(parameters: Tree, images: jax.Array) -> jax.Array:
    def convolution(layer: Tree, inputs: jax.Array, stride: int = 1) -> jax.Array:
        return batch_norm(layer, convolved(inputs, layer["w"], stride))

    hidden = jax.nn.relu(convolution(parameters["stem"], images.transpose(0, 2, 3, 1)))
    for stage, (_, first_stride) in enumerate(STAGES):
        for block in range(3):
            layers = parameters[f"stage_{stage}_block_{block}"]
            stride = first_stride if block == 0 else 1
            kept = hidden
            if "shortcut" in layers:
                kept = convolution(layers["shortcut"], hidden, stride)
            hidden = jax.nn.relu(convolution(layers["first"], hidden, stride))
            hidden = jax.nn.relu(convolution(layers["second"], hidden) + kept)
    return through(parameters["classes"], hidden.mean((1, 2)))


NETWORKS = {
    "perceptron": Network(perceptron, perceptron_scores, (1, 28, 28)),
    "resnet20": Network(resnet20, resnet20_scores, (3, 32, 32)),
    "convnet": Network(convnet, convnet_scores, (1, 28, 28)),
    "lstm": Network(lstm, lstm_scores, (1, 28, 28)),
    "transformer": Network(transformer, transformer_scores, (1, 28, 28)),
}


def loss(scores: Scores, parameters: Tree, images: jax.Array, labels: jax.Array) -> jax.Array:
    """Mean cross-entropy of a batch."""
    logs = jax.nn.log_softmax(scores(parameters, images))
    return -jnp.mean(jnp.take_along_axis(logs, labels[:, None], axis=1))
