"""What a job costs: floating-point operations of a step, and bits of its messages."""

from __future__ import annotations

import warnings
from pathlib import Path

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from favano.aggregation.aggregator import bits_of_message
from favano.aggregation.link import coded_bits
from favano.data.transforms import to_float
from favano.errors import BadInput, format_error, require
from favano.planning.fleet import needs_cost
from favano.run.assembly import codec_of, plain_numbers
from favano.run.data import load_data
from favano.run.fitting import fit
from favano.run.samples import (
    ModelFactory,
    Samples,
    initial_module,
    named_model,
    samples_of,
)
from favano.specification.spec import Spec, required
from favano.timing import JobCost
from favano.training import FlatModel

_SAMPLES = 2  # that operations are counted for; batch normalisation needs more than one


def job_cost(spec: Spec, samples: Samples, model: nn.Module | ModelFactory) -> JobCost | None:
    """The cost of a job of a complete specification; None where no time depends on it.

    Operations are those of matrix products, convolutions and attention, a multiplication and an
    addition each, forward and backward; they are counted for a few samples and are proportional to
    the batch. A client's first model, which codecs leave as it is, counts as any other.
    """
    if not needs_cost(spec):
        return None
    flat, samples = fit(initial_module(model, spec.run.seed), samples, "cpu")
    codec, coded = codec_of(spec), None
    if codec is not None:
        plain = plain_numbers(spec, flat.layout)
        coded = coded_bits(codec, flat.parameter_sizes, plain)
    bits = bits_of_message(flat.layout, coded, spec.method.corrects)
    flops = _flops_per_sample(flat, samples) if spec.fleet.needs_flops else 0.0
    return JobCost(flops * required(spec.problem.batch_size), bits, bits)


def named_cost(spec: Spec, data_dir: Path | None = None) -> JobCost | None:
    """The same for the data set and the network that a specification names."""
    if not needs_cost(spec):
        return None
    samples = samples_of(load_data(spec.problem, data_dir), torch.device("cpu"))
    return job_cost(spec, samples, named_model(spec, samples))


def _flops_per_sample(flat: FlatModel, samples: Samples) -> float:
    features, labels = samples.features[:_SAMPLES].cpu(), samples.labels[:_SAMPLES].cpu()
    steps = samples.preprocessing
    inputs = features.clone() if steps is None else to_float(features, steps)
    inputs = inputs.to(flat.vector.dtype) if inputs.is_floating_point() else inputs
    name = type(flat.module).__name__
    counter = FlopCounterMode(display=False)
    # Fused kernels of recurrent layers and attention are not counted; what they are made of is.
    fused = torch.backends.mkldnn.flags(enabled=False)
    plain = sdpa_kernel(SDPBackend.MATH)
    with (
        warnings.catch_warnings(action="ignore"),  # of hardware that is not here
        torch.enable_grad(),
        flat.unchanged(),
        flat.drawing(),
        fused,
        plain,
    ):
        try:
            with counter:
                output = flat.objective.calling.outputs(flat.module.train(), inputs)
                flat.loss(output, labels.clone()).backward()  # type: ignore[no-untyped-call]
        except Exception as error:
            rule = f"cannot count the operations of a step: {format_error(error)}"
            raise BadInput("model", name, rule) from error
    rule = "has no operations that are counted (matrix products, convolutions, attention)"
    require(counter.get_total_flops() > 0, "model", name, rule)
    return counter.get_total_flops() / len(inputs)
