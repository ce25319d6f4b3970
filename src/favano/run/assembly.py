"""Assembles a planned run: its updates and its local training. Everything that trains uses this."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from favano.aggregation import Aggregator, ClientMemory, Link, ServerChain
from favano.errors import require
from favano.methods import State
from favano.metrics import accuracy
from favano.planning.planned import Planned
from favano.preflight.task import check_task
from favano.quantisation import Codec, Lattice, MinMax, Qsgd
from favano.run.samples import ModelFactory, Samples, initial_module, make_task
from favano.specification.spec import Spec, required
from favano.training import FlatModel, Layout, LocalRule, Loss, Task
from favano.types import Vector


class Assembled(NamedTuple):
    """One seed of one specification, ready to be trained."""

    task: Task
    aggregator: Aggregator[State]
    rule: LocalRule


def assemble(planned: Planned, samples: Samples, flat: FlatModel, initial: Vector) -> Assembled:
    """Split the data and assemble one seed of a specification.

    Args:
        planned: the run.
        samples: the data.
        flat: the network to train; its present weights are not used.
        initial: the model that the run starts with.
    """
    spec, method = planned.spec, planned.method
    task = make_task(spec, planned.seed, planned.fleet, samples)
    judged = samples.loss is functional.cross_entropy or accuracy in samples.metrics.values()
    test = samples.test_features, samples.test_labels
    check_task(flat, task, samples.classes if judged else 0, test)
    _check_buffers(spec, flat)
    aggregator: Aggregator[State] = Aggregator(
        method,
        planned.timeline,
        flat.layout,
        planned.rates,
        initial,
        memory=ClientMemory(
            method,
            flat.layout,
            kept=spec.training.local_optimiser.kept,
            buffers=spec.run.buffers,
        ),
        server=ServerChain(method, spec.server.chain),
        non_finite=spec.run.non_finite,
        link=_link(planned, flat),
    )
    # The method of the specification, not this seed's: lanes of all seeds then share one rule.
    rule = spec.training.local_rule(spec.method, corrected=method.corrects)
    return Assembled(task, aggregator, rule)


def _check_buffers(spec: Spec, flat: FlatModel) -> None:
    """Refuse statistics per client of a network that has none."""
    buffers, name = spec.run.buffers, type(flat.module).__name__
    rule = f"has no effect on {name}, which has no buffers; remove it"
    require(buffers == "average" or flat.layout.buffers > 0, "buffers", buffers, rule)


def _link(planned: Planned, model: FlatModel) -> Link | None:
    """The compression of a run's messages; None without compression."""
    spec = planned.spec
    codec = codec_of(spec)
    if codec is None:
        return None
    return Link(
        codec,
        model.parameter_sizes,
        planned.schedule,
        seed=planned.seed,
        streams=planned.fleet.streams,
        plain=plain_numbers(spec, model.layout),
    )


def plain_numbers(spec: Spec, layout: Layout) -> int:
    """Numbers of a message that no codec encodes: buffers, if they are averaged."""
    return layout.buffers if spec.run.buffers == "average" else 0


def codec_of(spec: Spec) -> Codec | None:
    """How models are packed; None: they are not."""
    if spec.run.codec == "none":
        return None
    bits = required(spec.run.codec_bits)
    if spec.run.codec == "lattice":
        return Lattice(
            bits=bits, scale=required(spec.run.codec_scale), dither=spec.run.codec_dither
        )
    return MinMax(bits=bits) if spec.run.codec == "min-max" else Qsgd(bits=bits)


def initial_vector(
    flat: FlatModel, model: nn.Module | ModelFactory, loss: Loss, seed: int
) -> Vector:
    """The initial model of a seed, where and as `flat` is."""
    module, like = initial_module(model, seed), flat.vector
    own = FlatModel(module, loss, device=like.device, dtype=like.dtype)
    for name in own.constants | flat.constants:
        values, theirs = own.constants.get(name), flat.constants.get(name)
        same = (
            values is not None and theirs is not None and torch.equal(_bits(values), _bits(theirs))
        )
        kind = "frozen parameter" if name in flat.frozen else "buffer"
        rule = f"has another {kind} {name} for seed {seed}, and all seeds of a call share it"
        advice = "make it once, outside of the function"
        advice = advice if name in flat.frozen else "simulate one seed at a time"
        require(same, "model", type(module).__name__, f"{rule}; {advice}")
    return own.snapshot()


def _bits(tensor: Tensor) -> Tensor:
    return tensor.reshape(-1).view(torch.uint8)
