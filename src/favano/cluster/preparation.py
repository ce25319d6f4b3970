"""What is decided before packs are sent: the runs, their lengths and their kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch

from favano.cluster.packs import PackedRun
from favano.data import Dataset
from favano.metrics import client_metrics
from favano.planning.planned import plan_seeds
from favano.run.result import Result
from favano.run.run_kernels import kernels_here
from favano.run.runner import check_earlier
from favano.run.samples import Samples, in_steps, named_model, samples_of
from favano.specification.presets import resolve
from favano.specification.spec import Spec, required
from favano.types import Kernels


class Prepared(NamedTuple):
    """Results to be filled, and the runs that they lack."""

    results: list[Result]
    kernels: list[Kernels | None]  # of each result; None on a GPU
    runs: list[PackedRun]


def prepare(specs: Sequence[Spec], data: Dataset, earlier: Mapping[int, Result]) -> Prepared:
    """Plan all runs, and choose kernels here for all machines: others have other bits."""
    samples = samples_of(data, torch.device("cpu"))
    results = [
        replace(earlier[number], spec=spec)
        if number in earlier
        else Result(spec, client_metrics(samples.metrics, spec.run.evaluate_on))
        for number, spec in enumerate(map(resolve, specs))
    ]
    runs, model = list(_planned_runs(results, samples)), named_model(results[0].spec, samples)
    kernels = [kernels_here(required(result.first), samples, model) for result in results]
    for number, result in earlier.items():
        check_earlier(result, kernels[number], samples)
    return Prepared(results, kernels, runs)


def _planned_runs(results: Sequence[Result], samples: Samples) -> Iterator[PackedRun]:
    """The runs that results lack; each result gets the plan of its first seed."""
    for number, result in enumerate(results):
        planned = plan_seeds(in_steps(result.spec, samples), samples.traits)
        result.first, there = planned[0], {run.seed for run in result.runs}
        for plan in planned:
            if plan.seed not in there:
                yield PackedRun(number, plan.seed, plan.schedule.used_steps)
