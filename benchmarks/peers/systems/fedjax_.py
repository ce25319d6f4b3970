"""FedJAX: its `federated_averaging` over `for_each_client` with the jit backend.

Equal work: `shuffle_repeat_batch` with 20 steps of 128 and `drop_remainder`, plain SGD for the
clients, and a server step of SGD with rate 1, which makes the weighted mean of the deltas the
plain average. The model is written in `jax.numpy`; its samples are NumPy arrays in memory, as
FedJAX's own data sets are.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import numpy as np

jax.tree_map = jax.tree_util.tree_map  # FedJAX 0.0.17 still calls what JAX has removed

import fedjax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from common import (  # noqa: E402
    BATCH,
    CLASSES,
    HIDDEN,
    INPUTS,
    LOCAL_STEPS,
    RATE,
    SELECTED,
    Meter,
    samples,
    seconds_argument,
)

Params = dict[str, jax.Array]
Batch = dict[str, jax.Array]


def loss(params: Params, batch: Batch, key: jax.Array) -> jax.Array:
    """Mean cross-entropy of a batch."""
    hidden = jax.nn.relu(batch["x"] @ params["w1"] + params["b1"])
    logs = jax.nn.log_softmax(hidden @ params["w2"] + params["b2"])
    return -jnp.mean(jnp.take_along_axis(logs, batch["y"][:, None], axis=1))


def initial() -> Params:
    """Uniform within one over the root of the fan-in, as PyTorch's layers."""
    generator = np.random.default_rng(1)

    def uniform(fan_in: int, *shape: int) -> jax.Array:
        bound = fan_in**-0.5
        return jnp.asarray(generator.uniform(-bound, bound, shape), jnp.float32)

    return {
        "w1": uniform(INPUTS, INPUTS, HIDDEN),
        "b1": uniform(INPUTS, HIDDEN),
        "w2": uniform(HIDDEN, HIDDEN, CLASSES),
        "b2": uniform(HIDDEN, CLASSES),
    }


def train(
    loss: Callable[[Params, Batch, jax.Array], jax.Array],
    clients: dict[str, dict[str, np.ndarray]],
    parameters: Params,
    meter: Meter,
) -> None:
    """Rounds of federated averaging until the time is over."""
    sampler = fedjax.client_samplers.UniformGetClientSampler(
        fedjax.InMemoryFederatedData(clients), num_clients=SELECTED, seed=0
    )
    fedjax.set_for_each_client_backend("jit")
    algorithm = fedjax.algorithms.fed_avg.federated_averaging(
        jax.grad(loss),
        client_optimizer=fedjax.optimizers.sgd(RATE),
        server_optimizer=fedjax.optimizers.sgd(1.0),
        client_batch_hparams=fedjax.ShuffleRepeatBatchHParams(
            batch_size=BATCH, num_epochs=None, num_steps=LOCAL_STEPS, drop_remainder=True
        ),
    )
    state, done = algorithm.init(parameters), False
    while not done:
        state, _ = algorithm.apply(state, sampler.sample())
        jax.block_until_ready(state.params)
        done = meter.over()
    meter.report("fedjax", "jax")


def main() -> None:
    """The perceptron of the comparison."""
    seconds = seconds_argument()
    images, labels = samples()
    clients = {
        f"{index:03d}": {"x": x, "y": y.astype(np.int32)}
        for index, (x, y) in enumerate(zip(images, labels, strict=True))
    }
    train(loss, clients, initial(), Meter("fedjax", seconds))


if __name__ == "__main__":
    main()
