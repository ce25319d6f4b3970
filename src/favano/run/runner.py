"""Runs specifications, all seeds in parallel, and collects their results."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from time import perf_counter
from types import MappingProxyType
from typing import Final

import torch
from torch import nn

from favano.engine import RunEvent
from favano.errors import BadInput, own_failure, require
from favano.forked_calls import ForkedCalls, usable_cores
from favano.metrics import client_metrics
from favano.planning.audit import who_trains
from favano.planning.planned import Planned, Seed, plan_all
from favano.preflight.metrics import check_metrics
from favano.quantisation import quantised
from favano.results import Result
from favano.run.assembly import initial_vector
from favano.run.checkpoints import CheckpointManager, Checkpoints
from favano.run.engines import engine
from favano.run.fitting import fit
from favano.run.job_cost import job_cost
from favano.run.observer import Observer, ObserverFailed
from favano.run.progress import Progress, Silence
from favano.run.samples import ModelFactory, Samples, initial_module, new_network
from favano.run.seed_run import SeedRun
from favano.specification.presets import resolve
from favano.specification.spec import Spec
from favano.training import (
    GradientTrace,
    StepsDone,
    is_linked,
    one_thread,
    trace_gradients,
)
from favano.types import Kernels

NOTHING: Final[Mapping[int, Result]] = MappingProxyType({})
_PERIOD = 1.0  # seconds between two collections of results


def run(
    spec: Spec,
    samples: Samples,
    model: nn.Module | ModelFactory,
    *,
    progress: Progress | None = None,
    workers: int | None = None,
) -> Result:
    """Run every seed of one specification."""
    return run_together([spec], samples, model, progress=progress, workers=workers)[0]


def run_together(
    specs: Sequence[Spec],
    samples: Samples,
    model: nn.Module | ModelFactory,
    *,
    progress: Progress | None = None,
    workers: int | None = None,
    finished: Callable[[Result], None] = lambda result: None,
    on_evaluate: Observer | None = None,
    on_steps: Callable[[StepsDone], None] = lambda made: None,
    audits: bool = True,
    checkpoints: Checkpoints | None = None,
    earlier: Mapping[int, Result] = NOTHING,
    seeds: Sequence[Collection[int]] | None = None,
) -> list[Result]:
    """Run every seed of several specifications with one network on one set of lanes.

    Ctrl-C ends the runs early: their evaluations are kept, marked partial. So does an error in code
    of the user's, which is raised as BadInput, and one in an observer: `ObserverFailed`; either has
    the results. A run that meets NaN ends alone. `workers` is the number of processes, by default
    one per core; it changes no result.
    `finished` gets each result soon after all its seeds have ended. `on_evaluate` is called after
    every evaluation, `on_steps` with the local steps that lanes have made. Without `audits` the
    results do not say who trained the models and whom they serve. With `checkpoints` runs go on
    where they were ended before. Seeds of `earlier` results, by the number of their specification,
    are taken over. `seeds` are those of each specification to run, by default all.
    """
    inference = torch.is_inference_mode_enabled()
    require(not inference, "inference_mode", inference, "training needs gradients; leave it first")
    complete = [resolve(spec) for spec in specs]
    results = [
        earlier[number].with_spec(spec)
        if number in earlier
        else Result.of(spec, client_metrics(samples.metrics, spec.run.evaluate_on))
        for number, spec in enumerate(complete)
    ]
    planned = _planned(results, samples, model, seeds)
    recipe = results[0].spec.training.recipe
    alike = all(result.spec.training.recipe == recipe for result in results)
    rule = "must be the same, with all its options, for all runs"
    require(alike, "quantise", results[0].spec.training.quantise, rule)
    module, loss = initial_module(model, planned[0][1].seed), samples.loss
    network = quantised(module, recipe)
    linked = network is not module and is_linked(module, loss)
    rule = "its layers are replaced, so that no loss or hook may refer to the network"
    require(not linked, "quantise", results[0].spec.training.quantise, rule)
    flat, samples = fit(network, samples, samples.labels.device)
    loss = samples.loss
    if samples.own:
        for result in results:
            metrics = client_metrics(samples.metrics, result.spec.run.evaluate_on)
            result.summary.metrics = metrics
    if flat.loss is not loss:
        samples = replace(samples, loss=flat.loss)
    gradients: dict[Kernels, GradientTrace] = {}
    with one_thread():
        different = {run.seed for _, run in planned}
        initial = {seed: initial_vector(flat, model, loss, seed) for seed in different}
        if flat.frozen and len(different) == 1 and not isinstance(model, nn.Module):
            initial_vector(flat, model, loss, min(different) + 1)  # must have the same ones
        runs = [
            SeedRun(
                result,
                plan,
                samples,
                flat,
                initial[plan.seed],
                gradients,
                on_evaluate,
                partial(new_network, model),
            )
            for result, plan in planned
        ]
        for number, result in earlier.items():
            check_earlier(result, results[number].summary.kernels, samples)
        check_metrics(runs[0].evaluate)
        for gradient in gradients.values():
            _trace(gradient, [run for run in runs if run.trainer.traced is gradient])
    ended, keeper = _EndedRuns(runs, finished), None
    if checkpoints is not None:
        folders = dict(zip(map(id, results), checkpoints.folders, strict=True))
        keeper = CheckpointManager(
            checkpoints, runs, [folders[id(run.result)] for run in runs], samples
        )
        keeper.resume()
    described = [run for run in runs if audits and run.describes]
    foreseen = [run for run in described if run.foreseen]
    calls = [partial(who_trains, run.planned) for run in foreseen]
    with ForkedCalls(calls, usable_cores()) as who_will_train:
        if flat.vector.device.type != "cpu":  # which leaves the cores to others
            who_will_train.begin()
        failed = _train(runs, engine(flat, runs, workers), progress, on_steps, keeper, ended)
        with one_thread():
            ended.hand_in()
            for result in results:
                _hand_in(runs, result)
        try:
            trained = dict(zip(map(id, foreseen), who_will_train.results(), strict=True))
            with one_thread():
                for run in described:
                    run.describe(trained.get(id(run)))
        except KeyboardInterrupt:  # only audits are missing
            for run in runs:
                run.interrupt()
    if failed is not None:
        failed.results = results if any(result.rows for result in results) else []
        raise failed
    return results


def _train(
    runs: Sequence[SeedRun],
    moments: Generator[RunEvent],
    progress: Progress | None,
    on_steps: Callable[[StepsDone], None],
    keeper: CheckpointManager | None,
    ended: _EndedRuns,
) -> ObserverFailed | BadInput | None:
    """Train until all runs have ended, or Ctrl-C or an error of the user's, which is returned."""
    display = progress or Silence()
    failed: ObserverFailed | BadInput | None = None
    made = 0  # local steps that the display does not know of
    display.begin(sum(run.steps_left for run in runs))
    try:
        with one_thread(), closing(moments) as steps:
            for step in steps:
                run, made = runs[step.run], made + step.steps_done.steps
                on_steps(step.steps_done)
                if run.began:
                    display.advance(run.label, made, run.time)
                    made = 0
                if step.event is None:
                    continue
                run.record(step.event)
                if keeper is not None:
                    keeper.offer(run, step.event)
                ended.check(run)
    except KeyboardInterrupt:
        for run in runs:
            run.interrupt()
    except Exception as error:
        failed = error if isinstance(error, ObserverFailed) else own_failure(error)
        if failed is None:
            raise
        for run in runs:
            run.interrupt()
    finally:
        display.end()
        if keeper is not None:
            keeper.close()
    return failed


def _planned(
    results: Sequence[Result],
    samples: Samples,
    model: nn.Module | ModelFactory,
    seeds: Sequence[Collection[int]] | None,
) -> list[tuple[Result, Planned]]:
    """Plan the given seeds of each result, or all that it does not have yet."""
    asked = list[tuple[Result, Seed]]()
    for number, result in enumerate(results):
        spec, cost = result.spec, job_cost(result.spec, samples, model)
        every = range(spec.run.seed, spec.run.seed + spec.run.seeds)
        mine = every if seeds is None else seeds[number]
        asked += [(result, Seed(spec, seed, cost)) for seed in mine]
    plans = plan_all(
        [seed for _, seed in asked], samples.traits, usable_cores(), whole=seeds is None
    )
    there = {id(result): {run.seed for run in result.runs} for result in results}
    return [
        (result, plan)
        for (result, _), plan in zip(asked, plans, strict=True)
        if seeds is not None or plan.seed not in there[id(result)]
    ]


def check_earlier(earlier: Result, kernels: str | None, samples: Samples) -> None:
    """Refuse to add seeds with other kernels or data to a result."""
    before = earlier.summary
    rule = f"its earlier seeds were trained with {before.kernels}; repeat them by --force"
    require(kernels == before.kernels, "kernels", kernels, rule)
    rule = "its earlier seeds were trained on other data; choose a new folder"
    same = before.data in (None, samples.digest)
    require(same, "dataset", earlier.spec.problem.dataset, rule)


def _trace(gradient: GradientTrace, runs: Sequence[SeedRun]) -> None:
    """Trace the gradients of batches for which it pays in these runs together."""
    steps = sum(run.planned.schedule.used_steps for run in runs)
    traced = trace_gradients(gradient, runs[0].trainer.task, steps)
    for run in runs:
        run.result.traced = traced


class _EndedRuns:
    """Hands in the results whose seeds have all ended, about once per second.

    Runs of one horizon end at about the same time, and a GPU would be idle while they are written
    one by one.
    """

    def __init__(self, runs: Sequence[SeedRun], finished: Callable[[Result], None]) -> None:
        self._runs, self._finished = runs, finished
        self._waiting: list[Result] = []
        self._handed_in = perf_counter()

    def check(self, run: SeedRun) -> None:
        """Note the result of a run that may have ended."""
        if run.over and all(other.over for other in self._runs if other.result is run.result):
            self._waiting.append(run.result)
        if self._waiting and perf_counter() > self._handed_in + _PERIOD:
            self.hand_in()

    def hand_in(self) -> None:
        """Hand in all results that wait."""
        while self._waiting:
            result = self._waiting.pop(0)
            _hand_in(self._runs, result)
            self._finished(result)
        self._handed_in = perf_counter()


def _hand_in(runs: Sequence[SeedRun], result: Result) -> None:
    """Put the evaluations of all seeds into their result, in order, once."""
    for run in runs:
        if run.result is result:
            run.hand_in()
