"""FedJAX on a GPU: as `fedjax_.py`, with the networks of the comparison on GPUs; one run.

FedJAX keeps its samples in the memory of the host, and trains one client after the other.
"""

from __future__ import annotations

from functools import partial

import jax
import numpy as np

jax.tree_map = jax.tree_util.tree_map  # FedJAX 0.0.17 still calls what JAX has removed

import fedjax  # noqa: E402
from common import (  # noqa: E402
    BATCH,
    CLIENTS,
    LOCAL_STEPS,
    RATE,
    SAMPLES,
    SELECTED,
    GpuMeter,
    gpu_arguments,
)
from jax_networks import NETWORKS, Tree, loss  # noqa: E402


def batch_loss(scores, parameters: Tree, batch: dict[str, jax.Array], key: jax.Array) -> jax.Array:
    return loss(scores, parameters, batch["x"], batch["y"])


def main() -> None:
    """Rounds of federated averaging until the time is over."""
    asked = gpu_arguments()
    network = NETWORKS[asked.network]
    generator = np.random.default_rng(0)
    clients = {
        f"{index:03d}": {
            "x": generator.random((SAMPLES, *network.image), dtype=np.float32),
            "y": generator.integers(0, 10, SAMPLES).astype(np.int32),
        }
        for index in range(CLIENTS)
    }
    sampler = fedjax.client_samplers.UniformGetClientSampler(
        fedjax.InMemoryFederatedData(clients), num_clients=SELECTED, seed=0
    )
    fedjax.set_for_each_client_backend("jit")
    algorithm = fedjax.algorithms.fed_avg.federated_averaging(
        jax.grad(partial(batch_loss, network.scores)),
        client_optimizer=fedjax.optimizers.sgd(RATE),
        server_optimizer=fedjax.optimizers.sgd(1.0),
        client_batch_hparams=fedjax.ShuffleRepeatBatchHParams(
            batch_size=BATCH, num_epochs=None, num_steps=LOCAL_STEPS, drop_remainder=True
        ),
    )
    state = algorithm.init(network.parameters(np.random.default_rng(1)))
    meter, done = GpuMeter("fedjax", asked), False
    while not done:
        state, _ = algorithm.apply(state, sampler.sample())
        jax.block_until_ready(state.params)
        done = meter.over()
    meter.report("fedjax", "jax")


if __name__ == "__main__":
    main()
