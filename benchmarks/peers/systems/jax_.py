"""A plain JAX program, as an expert writes it: `vmap` over runs and clients, `scan` over steps.

Equal work: all samples lie on the GPU, every local step gathers a random mini-batch of its
client's 600, and the server's model is the plain average. Several rounds are one program.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from common import BATCH, CLIENTS, LOCAL_STEPS, RATE, SAMPLES, SELECTED, GpuMeter, gpu_arguments
from jax import lax
from jax_networks import NETWORKS, Tree, loss

ROUNDS = 5  # in one program


def main() -> None:
    """Rounds of federated averaging until the time is over."""
    asked = gpu_arguments()
    network = NETWORKS[asked.network]
    generator = np.random.default_rng(0)
    shape = (CLIENTS * SAMPLES, *network.image)
    images = jnp.asarray(generator.random(shape, dtype=np.float32))
    labels = jnp.asarray(generator.integers(0, 10, CLIENTS * SAMPLES))
    gradient = jax.grad(partial(loss, network.scores))

    def local_step(images, labels, client, parameters: Tree, key: jax.Array):
        rows = client * SAMPLES + jax.random.randint(key, (BATCH,), 0, SAMPLES)
        slope = gradient(parameters, images[rows], labels[rows])
        return jax.tree_util.tree_map(lambda w, g: w - RATE * g, parameters, slope), None

    def client_model(images, labels, parameters: Tree, client, key: jax.Array) -> Tree:
        step = partial(local_step, images, labels, client)
        return lax.scan(step, parameters, jax.random.split(key, LOCAL_STEPS))[0]

    def server_round(images, labels, parameters: Tree, key: jax.Array):
        chosen, local = jax.random.split(key)
        clients = jax.random.choice(chosen, CLIENTS, (SELECTED,), replace=False)
        train = jax.vmap(partial(client_model, images, labels, parameters))
        ends = train(clients, jax.random.split(local, SELECTED))
        return jax.tree_util.tree_map(lambda models: models.mean(0), ends), None

    def one_run(images, labels, parameters: Tree, key: jax.Array) -> Tree:
        step = partial(server_round, images, labels)
        return lax.scan(step, parameters, jax.random.split(key, ROUNDS))[0]

    rounds = jax.jit(jax.vmap(one_run, in_axes=(None, None, 0, 0)), donate_argnums=2)
    start = network.parameters(np.random.default_rng(1))
    parameters = jax.tree_util.tree_map(
        lambda weight: jnp.repeat(weight[None], asked.runs, axis=0), start
    )
    key, meter, done = jax.random.key(0), GpuMeter("jax", asked), False
    while not done:
        key, drawn = jax.random.split(key)
        parameters = rounds(images, labels, parameters, jax.random.split(drawn, asked.runs))
        jax.block_until_ready(parameters)
        done = meter.over(ROUNDS * asked.runs)
    meter.report("jax")


if __name__ == "__main__":
    main()
