"""Runs specifications, all their seeds side by side, and keeps what was measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter

from torch import nn

from favano.errors import need
from favano.planning.planned import plan_seeds
from favano.quantisation import quantised
from favano.run.engines import engine
from favano.run.progress import Progress, Silence
from favano.run.result import Result
from favano.run.samples import (
    ModelFactory,
    Samples,
    in_steps,
    initial_module,
    number_type,
)
from favano.run.seed_run import SeedRun
from favano.specification.presets import resolve
from favano.specification.spec import Spec
from favano.training import (
    FlatModel,
    GradientTrace,
    one_thread,
    trace_gradients,
)
from favano.types import Kernels

_PERIOD = 1.0  # seconds


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
    audits: bool = True,
) -> list[Result]:
    """Run every seed of several specifications with one network over one set of lanes.

    Ctrl-C ends it early: what was measured is kept, marked partial. A run that meets NaN ends for
    itself. `workers` is the number of processes; by default one a core. It changes no result.
    `finished` hears of each result soon after all its seeds are through. Without `audits` nobody
    asks who trained the models.
    """
    results = [Result(resolve(spec)) for spec in specs]
    planned = [
        (result, one)
        for result in results
        for one in plan_seeds(in_steps(result.spec, samples), samples.host_labels)
    ]
    recipe = results[0].spec.training.recipe
    alike = all(result.spec.training.recipe == recipe for result in results)
    rule = "must be the same, with all its options, for runs that share lanes"
    need(alike, "quantise", results[0].spec.training.quantise, rule)
    network = quantised(initial_module(model, planned[0][1].seed), recipe)
    dtype = number_type(network, samples)
    flat = FlatModel(network, device=samples.labels.device, dtype=dtype)
    gradients: dict[Kernels, GradientTrace] = {}
    with one_thread():
        runs = [SeedRun(result, one, samples, flat, model, gradients) for result, one in planned]
        for gradient in gradients.values():
            _trace(gradient, [one for one in runs if one.trainer.traced is gradient])
    watch, through = progress or Silence(), _Through(runs, finished)
    watch.begin(sum(one.schedule.used_steps for _, one in planned))
    try:
        with one_thread(), engine(flat, runs, workers) as steps:
            for step in steps:
                one = runs[step.run]
                one.hear(step.moment, watch)
                through.hear(one)
    except KeyboardInterrupt:
        for one in runs:
            one.stop()
        _interrupt(results)
    finally:
        watch.end()
    through.hand_in()
    for result in results:
        _hand_in(runs, result)
    try:
        for one in runs if audits else ():
            one.audit_first()
    except KeyboardInterrupt:  # everything is measured; only audits are missing
        _interrupt(results)
    return results


def _interrupt(results: Sequence[Result]) -> None:
    """Note that Ctrl-C was pressed."""
    for result in results:
        result.interrupted = True


def _trace(gradient: GradientTrace, runs: Sequence[SeedRun]) -> None:
    """Trace what pays for these runs together."""
    steps = sum(one.planned.schedule.used_steps for one in runs)
    traced = trace_gradients(gradient, runs[0].trainer.task, steps)
    for one in runs:
        one.result.traced = traced


class _Through:
    """Results whose seeds are all through are handed in, those of a second together.

    Runs of one horizon end at about the same time. A GPU would stand still while each of them is
    written down in turn.
    """

    def __init__(self, runs: Sequence[SeedRun], finished: Callable[[Result], None]) -> None:
        self._runs, self._finished = runs, finished
        self._waiting: list[Result] = []
        self._handed_in = perf_counter()

    def hear(self, one: SeedRun) -> None:
        """A run has come a step further."""
        if one.over and all(other.over for other in self._runs if other.result is one.result):
            self._waiting.append(one.result)
        if self._waiting and perf_counter() > self._handed_in + _PERIOD:
            self.hand_in()

    def hand_in(self) -> None:
        """Whatever waits."""
        while self._waiting:
            result = self._waiting.pop(0)
            _hand_in(self._runs, result)
            self._finished(result)
        self._handed_in = perf_counter()


def _hand_in(runs: Sequence[SeedRun], result: Result) -> None:
    """Put what all seeds of a result measured into it, in order, once."""
    if not result.runs:
        for one in runs:
            if one.result is result:
                one.hand_in()
