"""Many updates of one run at once, if their weights depend on the distances between models.

The inner products of the models at hand are read from the device once. They are enough to find the
weights of the next updates one after the other, until a model is missing. The new server models are
then one product of weights and models.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from favano.aggregation.aggregator import Aggregator
from favano.methods import ClientUpdates, State
from favano.methods.arrays import units
from favano.types import Floats, Ints, Stack


def inner_products(models: Stack) -> Floats:
    """Those of the first model and of the others' differences from it, (k, k), in float64."""
    basis = torch.cat([models[:1], models[1:] - models[:1]]).double()
    products: Floats = (basis @ basis.T).cpu().numpy()
    return products


def walk(
    run: Aggregator[State], jobs: Ints, products: Floats, due: Callable[[int], bool]
) -> tuple[list[Ints], Floats]:
    """Make updates as long as they use these jobs, at most up to a version that is due.

    `products` are those of the server model, the jobs' start models, and their end models. Returns
    the jobs of each update, and weights of these models in the new server models, (parts, m, k), as
    `weighted` takes them.
    """
    models, place = units(products), {job: number for number, job in enumerate(jobs.tolist())}
    known, rate = run.timeline.known, run.rates[jobs]
    client, steps, base = known.client[jobs], known.steps[jobs], known.start_version[jobs]
    server, buffers, seen = models[0], models[0], np.eye(1, len(products))[0]
    used, versions = list[Ints](), []
    while not used or not (run.over or due(run.version)):
        wanted = run.timeline.jobs(run.version + 1)
        if not all(job in place for job in wanted.tolist()):
            break
        at = np.array([place[job] for job in wanted.tolist()], dtype=np.int64)
        start, end, stale = models[1 + at], models[1 + at + len(jobs)], run.version - base[at]
        about = (client[at], steps[at], stale, rate[at], run.version + 1)
        server, buffers = run.combine(server, buffers, ClientUpdates(*about, start, end))
        seen[1 + at + len(jobs)] = 1.0
        used.append(wanted)
        versions.append(np.array([server, buffers, seen]))
    parts = [True, run.layout.buffers > 0, run.layout.counters > 0]
    return used, np.stack(versions, axis=1)[parts]
