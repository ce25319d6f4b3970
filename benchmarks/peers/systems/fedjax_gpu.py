"""FedJAX on a GPU: as `fedjax_.py`, with the networks of the comparison on GPUs; one run.

FedJAX keeps its samples in the memory of the host, and trains one client after the other.
"""

from __future__ import annotations

from functools import partial

import jax
import numpy as np
from common import CLIENTS, SAMPLES, GpuMeter, gpu_arguments
from fedjax_ import train
from jax_networks import NETWORKS, Tree, loss


def batch_loss(scores, parameters: Tree, batch: dict[str, jax.Array], key: jax.Array) -> jax.Array:
    return loss(scores, parameters, batch["x"], batch["y"])


def main() -> None:
    """The network that is asked for."""
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
    parameters = network.parameters(np.random.default_rng(1))
    train(partial(batch_loss, network.scores), clients, parameters, GpuMeter("fedjax", asked))


if __name__ == "__main__":
    main()
