"""What is decided before packs are sent: the runs, their lengths and their kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from favano.cluster.packs import PackedRun
from favano.metrics import client_metrics
from favano.planning.planned import plan_seeds
from favano.results import Result
from favano.run.inputs import RunInputs
from favano.run.run_kernels import kernels_here
from favano.run.runner import check_earlier
from favano.specification.presets import resolve
from favano.specification.spec import Spec
from favano.types import Kernels


class Prepared(NamedTuple):
    """Results to be filled, and the runs that they lack."""

    results: list[Result]
    kernels: list[Kernels | None]  # of each result; None on a GPU
    runs: list[PackedRun]


def prepare(specs: Sequence[Spec], inputs: RunInputs, earlier: Mapping[int, Result]) -> Prepared:
    """Plan all runs, and choose kernels here for all machines: others have other bits."""
    samples = inputs.samples("cpu")
    results = [
        earlier[number].with_spec(spec)
        if number in earlier
        else Result.of(spec, client_metrics(samples.metrics, spec.run.evaluate_on))
        for number, spec in enumerate(map(resolve, specs))
    ]
    planned = [plan_seeds(result.spec, samples.traits) for result in results]
    model = inputs.network(results[0].spec, samples)
    kernels = [kernels_here(plans[0], samples, model) for plans in planned]
    for number, result in earlier.items():
        check_earlier(result, kernels[number], samples)
    runs = [
        PackedRun(number, plan.seed, plan.schedule.used_steps)
        for number, (result, plans) in enumerate(zip(results, planned, strict=True))
        for plan in plans
        if plan.seed not in {run.seed for run in result.runs}
    ]
    return Prepared(results, kernels, runs)
