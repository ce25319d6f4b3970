"""A short pilot run that measures the theorem's constants along the run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from torch import nn

from favano.engine import PlainLoop
from favano.errors import require
from favano.planning.planned import plan_seed
from favano.run import samples as sources
from favano.run.assembly import assemble
from favano.run.constants import Point, Probe
from favano.run.job_cost import job_cost
from favano.run.samples import ModelFactory, Samples
from favano.specification.presets import resolve
from favano.specification.spec import Spec
from favano.theory import Estimate, Estimates, known
from favano.training import FlatModel, LoopTrainer, one_thread

_UPDATES = 20  # of the pilot, at most
_POINTS = 4  # models at which constants are measured, including the initial one


def pilot(spec: Spec, samples: Samples, model: nn.Module | ModelFactory) -> Estimates:
    """Run the first seed for a few server steps and measure at some of its models.

    Losses are assumed to be >= 0, so that the gap F is at most the initial loss. B is 1: all
    differences between the clients' gradients are in G.
    """
    spec = resolve(spec)
    rule = "need none: the theorem's constants are about gradients in full precision"
    require(spec.training.recipe is None, "quantise", spec.training.quantise, rule)
    cost = job_cost(spec, samples, model)
    planned = plan_seed(spec, spec.run.seed, samples.traits, cost)
    module = sources.initial_module(model, spec.run.seed)
    dtype = sources.number_type(module, samples)
    flat = FlatModel(module, device=samples.labels.device, dtype=dtype)
    task, aggregator, local_rule = assemble(planned, samples, flat, flat.snapshot())
    trainer, probe = LoopTrainer(flat, task, local_rule), Probe(flat, task)
    last = min(_UPDATES, planned.schedule.updates) - 1
    wanted = set(np.linspace(-1, last, min(_POINTS, last + 2)).round().astype(int).tolist())
    points = []
    with one_thread():
        for event in PlainLoop(aggregator, trainer).events():
            if event.version in wanted:
                points.append(probe.at(event.server))
            if event.version >= last:
                break
    return estimates(points)


def estimate(spec: Spec, data_dir: Path | None = None) -> Estimates:
    """Run the pilot on the data set of a specification."""
    full = resolve(spec)
    samples = sources.load_samples(full, data_dir)
    return pilot(full, samples, sources.named_model(full, samples))


def estimates(points: Sequence[Point]) -> Estimates:
    """Constants with intervals, from measurements at several models.

    The value is the largest measured. The lower end is that of a typical client or model; the upper
    end is as far above the value, in proportion, or two standard errors above it.
    """
    smooth = max(point.smoothness for point in points)
    usual = float(np.median([point.smoothness_typical for point in points]))
    noisiest = max(points, key=lambda point: point.noise)
    quiet = float(np.median([point.noise_typical for point in points]))
    differing = [point.dissimilarity for point in points]
    return Estimates(
        smoothness=_around(smooth, usual),
        noise=Estimate(noisiest.noise, quiet, noisiest.noise + 2 * noisiest.noise_error),
        dissimilarity=_around(max(differing), min(differing)),
        growth=known(1.0),
        gap=known(points[0].loss),
    )


def _around(value: float, low: float) -> Estimate:
    """An interval from `low` to as far above the value, in proportion, as `low` is below it."""
    return Estimate(value, low, value**2 / low if low > 0 else value)
