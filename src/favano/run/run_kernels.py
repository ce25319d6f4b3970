"""What computes a run: the processor, and CPU kernels, named or measured if the run is long."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from favano.planning.fleet import make_fleet
from favano.planning.planned import Planned
from favano.quantisation import quantised
from favano.run.fitting import fit
from favano.run.job_cost import job_cost
from favano.run.samples import ModelFactory, Samples, initial_module, make_task
from favano.specification.spec import Spec, required
from favano.training import (
    FlatModel,
    Task,
    check_kernels,
    chosen_kernels,
    default_kernels,
    one_thread,
    processor,
)
from favano.types import KernelChoice, Kernels

FEWEST = 10_000  # steps that all clients could make, from which on a measurement pays


def kernels_for(planned: Planned, flat: FlatModel, task: Task) -> Kernels | None:
    """The kernels of a run; None on a GPU, which has its own.

    With `auto`, the default for short runs. Whether a run is short, and so the choice, depends on
    the specification alone: not on the seed, the method or other runs.
    """
    wanted = planned.spec.run.kernels
    if flat.vector.device.type != "cpu":
        return None
    if wanted != "auto":
        return check_kernels(wanted)
    if possible_steps(planned) < FEWEST:
        return default_kernels()
    return chosen_kernels(flat, task)


def kernels_here(
    planned: Planned, samples: Samples, model: nn.Module | ModelFactory
) -> Kernels | None:
    """The kernels that a run would have on this machine, if it is one on a CPU."""
    spec, seed = planned.spec, planned.seed
    if spec.run.device != "cpu":
        return None
    network = quantised(initial_module(model, seed), spec.training.recipe)
    flat, samples = fit(network, samples, "cpu")
    with one_thread():
        return kernels_for(planned, flat, make_task(spec, seed, planned.fleet, samples))


def long_run_kernels(spec: Spec, samples: Samples, model: ModelFactory) -> KernelChoice:
    """The kernels that the same run would have with a long horizon."""
    if spec.run.kernels != "auto" or samples.labels.device.type != "cpu":
        return spec.run.kernels
    flat = FlatModel(initial_module(model, spec.run.seed), device="cpu")
    with one_thread():
        fleet = make_fleet(spec, spec.run.seed, job_cost(spec, samples, model))
        task = make_task(spec, spec.run.seed, fleet, samples)
        return chosen_kernels(flat, task)


def possible_steps(planned: Planned) -> float:
    """Local steps of all clients if none ever waited: the sum of horizon / mean step time."""
    return required(planned.spec.run.horizon) * float(np.sum(1.0 / np.sort(planned.fleet.mean)))


def hardware(device: str) -> str:
    """The name of the processor, or of the GPU; the last bits of a result depend on it."""
    on = torch.device(device)
    return torch.cuda.get_device_name(on) if on.type == "cuda" else processor()
