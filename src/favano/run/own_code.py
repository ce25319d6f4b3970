"""What a run is made of beside its keys and its data: network, loss and metrics, by digests.

From Python these may be the user's own, and two runs with the same keys may differ in them.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace

from torch import nn
from torch.nn import functional

from favano.code_digest import PLAIN, code_digest
from favano.metrics import Metric, accuracy
from favano.quantisation import quantised
from favano.run.assembly import initial_vector
from favano.run.fitting import fit
from favano.run.samples import ModelFactory, Samples, initial_module
from favano.specification.presets import OWN
from favano.specification.spec import Spec
from favano.training import FlatModel
from favano.types import Vector


def is_own(spec: Spec, samples: Samples) -> bool:
    """Whether network, loss or metrics are the user's own."""
    usual = samples.loss is functional.cross_entropy and samples.metrics == {"accuracy": accuracy}
    return spec.problem.model == OWN or not usual


def digests_of(flat: FlatModel, initial: Vector, samples: Samples) -> dict[str, str]:
    """Digests by name."""
    metrics = tuple((name, *_fields(metric)) for name, metric in samples.metrics.items())
    return {
        "loss": code_digest(samples.loss),
        "metrics": code_digest(metrics),
        "network": _network(flat.module),
        "initial model": code_digest(
            (initial, *flat.constants.values()) if flat.constants else initial
        ),
    }


def code_of(spec: Spec, samples: Samples, model: nn.Module | ModelFactory) -> dict[str, str]:
    """The digests of a run before it is made; none if network, loss and metrics are ours."""
    if not is_own(spec, samples):
        return {}
    seed = spec.run.seed
    network = quantised(initial_module(model, seed), spec.training.recipe)
    flat, samples = fit(network, samples, samples.labels.device)
    samples = replace(samples, loss=flat.loss) if flat.loss is not samples.loss else samples
    return digests_of(flat, initial_vector(flat, model, samples.loss, seed), samples)


def _fields(metric: Metric) -> tuple[object, ...]:
    return metric.function, metric.best, metric.whole, metric.then


def _network(module: nn.Module) -> str:
    """A digest of the layers, and of what they do."""
    layers = re.sub("0x[0-9a-f]+", "", repr(module))
    kinds = {code_digest(type(layer)) for layer in module.modules()}
    values = [code_digest(_own_values(layer)) for layer in module.modules()]
    return hashlib.sha256("\n".join([layers, *sorted(kinds), *values]).encode()).hexdigest()


def _own_values(layer: nn.Module) -> tuple[tuple[str, object], ...]:
    """The numbers and texts that a layer keeps beside its tensors."""
    of_any = vars(nn.Module())
    kept = (pair for pair in vars(layer).items() if pair[0] not in of_any)
    return tuple(sorted(pair for pair in kept if isinstance(pair[1], PLAIN)))
