"""What is decided before packs are sent: the runs, their lengths and their kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from favano.cluster.packs import PackedRun
from favano.metrics import client_metrics
from favano.planning.planned import plan_seed, plan_seeds
from favano.results import Result
from favano.run.fitting import fit
from favano.run.inputs import RunInputs
from favano.run.job_cost import job_cost
from favano.run.run_kernels import kernels_here
from favano.run.runner import check_earlier
from favano.run.samples import initial_module
from favano.specification.presets import resolve
from favano.specification.spec import Spec
from favano.types import Kernels


class Prepared(NamedTuple):
    """Results to be filled, and the runs that they lack."""

    results: list[Result]
    kernels: list[Kernels | None]  # of each result; None on a GPU
    runs: list[PackedRun]


class _Alike(NamedTuple):
    """What runs have in common that differ in their seeds alone."""

    steps: int  # of one of them; those of others are about as many
    kernels: Kernels | None


def prepare(specs: Sequence[Spec], inputs: RunInputs, earlier: Mapping[int, Result]) -> Prepared:
    """Estimate the lengths of runs, and choose kernels here: other machines would have others.

    Of runs that differ in their seeds alone one is planned; machines plan all of theirs.
    """
    raw, model, first = inputs.samples("cpu"), inputs.network(resolve(specs[0])), specs[0]
    samples = raw
    if raw.own:  # fitted once, which is said here and not on a machine of the cluster alone
        samples = fit(initial_module(model, first.run.seed), raw, "cpu").samples
    results = [
        earlier[number].with_spec(spec)
        if number in earlier
        else Result.of(spec, client_metrics(samples.metrics, spec.run.evaluate_on))
        for number, spec in enumerate(map(resolve, specs))
    ]
    alike: dict[object, _Alike] = {}
    kernels, runs = [], []
    for number, result in enumerate(results):
        spec, run = result.spec, result.spec.run
        key = repr({**spec.keys, "seed": 0, "seeds": 1}), spec.source
        if key not in alike:
            cost = job_cost(spec, samples, model)
            plan = plan_seed(spec, run.seed, raw.traits, cost)
            if plan.longest_job == 1:
                plan_seeds(spec, raw.traits, cost)  # refuses what has no effect in such jobs
            steps = plan.schedule.used_steps
            alike[key] = _Alike(steps, kernels_here(plan, samples, model))
        kernels.append(alike[key].kernels)
        there = {made.seed for made in result.runs}
        seeds = (seed for seed in range(run.seed, run.seed + run.seeds) if seed not in there)
        runs += [PackedRun(number, seed, alike[key].steps) for seed in seeds]
    for number, result in earlier.items():
        check_earlier(result, kernels[number], samples)
    return Prepared(results, kernels, runs)
