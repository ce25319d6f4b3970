"""The run of one seed: its training, and the record of its evaluations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from math import nan
from time import perf_counter
from typing import NamedTuple

import torch
from torch import nn

from favano.aggregation import KINDS, Kinds, NoSnapshot, Snapshot, named_kinds, pack, unpack
from favano.engine import (
    Observation,
    Recorded,
    Recorder,
    ServerVersion,
    evaluation_times,
    live_models,
)
from favano.errors import NonFiniteUpdate, own_failure
from favano.metrics import ClientEvaluator, Evaluator
from favano.planning.audit import Trained, who_trains
from favano.planning.planned import Planned
from favano.records import LOSS, BoundRow, Status, best_row, diverged, leading, run_record, worst
from favano.records.checkpoint import Tree
from favano.results import Result
from favano.run.assembly import assemble
from favano.run.bound_tracking import Tracked, Tracker
from favano.run.client_scores import client_samples, per_client_scores
from favano.run.constants import Point, Probe
from favano.run.listeners import told_again
from favano.run.observer import Observer, evaluation, wants_to_stop
from favano.run.own_code import digests_of, is_own
from favano.run.run_kernels import hardware, kernels_for
from favano.run.samples import Samples
from favano.specification.history_start import files_digest, history_start
from favano.specification.spec import required
from favano.training import OF_LOSS, FlatModel, GradientTrace, LoopTrainer
from favano.types import Kernels, Vector
from favano.user_classes import is_ours


class SavedSeed(NamedTuple):
    """What a checkpoint holds of a run."""

    seconds: float  # of training so far
    machine_seconds: float  # its share of the time of the whole machine
    snapshot: Snapshot
    recorded: Recorded
    tracked: Tracked | None
    best: tuple[int, Vector] | None  # number of its evaluation, and model


class SeedRun:
    """One run; it records moments of the run and puts the evaluations into the result.

    `gradients` are shared by all runs with the same kernels; missing ones are added.
    """

    def __init__(
        self,
        result: Result,
        planned: Planned,
        samples: Samples,
        flat: FlatModel,
        initial: Vector,
        gradients: dict[Kernels, GradientTrace],
        observer: Observer | None = None,
        new_network: Callable[[int], nn.Module] | None = None,
    ) -> None:
        spec, schedule, seed = planned.spec, planned.schedule, planned.seed
        self.result, self.planned, self.flat, self.observer = result, planned, flat, observer
        self.samples, self._new_network = samples, new_network
        assembled = assemble(planned, samples, flat, initial)
        task, self.aggregator = assembled.task, assembled.aggregator
        self.kernels = kernels_for(planned, flat, task)
        self._describe_making()
        gradient: GradientTrace | None = None
        clock = self.aggregator.clock
        sees_loss = clock is not None and "loss" in clock.sees
        # The loop is an oracle for traces, too; these do not tell the loss.
        if self.kernels is not None and spec.run.engine != "loop" and not sees_loss:
            traced = GradientTrace(flat, task.loss, self.kernels)
            gradient = gradients.setdefault(self.kernels, traced)
        self.trainer = LoopTrainer(flat, task, assembled.rule, gradient, self.kernels, sees_loss)
        calibration = samples.calibration() if spec.run.buffers == "local" else None
        self.evaluate = Evaluator(
            flat,
            samples.test_features,
            samples.test_labels,
            samples.loss,
            calibration,
            samples.metrics,
            samples.ignoring,
        )
        held = client_samples(samples, task, required(spec.problem.split), flat.vector.dtype)
        self.clients = ClientEvaluator(self.evaluate, held, spec.run.evaluate_on == "both")
        self.judge = self.evaluate if spec.run.evaluate_on == "test" else self.clients
        last_update = float(schedule.time[-1:].sum())
        live = None
        if spec.run.variance == "live":
            live = live_models(self.aggregator, self.trainer, planned.fleet, seed)
        self.recorder = Recorder(
            self.aggregator,
            seed,
            evaluation_times(
                required(spec.run.horizon), required(spec.run.evaluate_every), last_update
            ),
            self.judge.measure,
            live,
            tuple(metric.name for metric in result.metrics),
            self._history_start(),
            planned.fleet.energy,
        )
        self.tracker: Tracker | None = None
        if spec.run.track_bound:
            rate = float(self.aggregator.rates.max(initial=0.0))
            self.tracker = Tracker(Probe(flat, task), planned.setting, rate)
        self.label = f"{spec.name}, seed {seed}"
        self.reached = -1  # the last server version
        self.steps = 0  # local steps made here
        self.failed = False  # by an update with NaN
        self._cause: str | None = None  # of the failure
        self._final: Vector | None = None  # the last server model of a row up to the horizon
        self._best: tuple[int, Vector] | None = None  # number of its evaluation, and model
        self._told = 0  # evaluations that the observer knows of
        self.began = self.ended = 0.0
        self._handed_in = False
        # Seconds, those of the machine, and steps before a checkpoint.
        self._before, self._machine_before, self._steps_before = 0.0, 0.0, 0

    def _describe_making(self) -> None:
        """Note what the run is made with, before training: an error must not cost a result."""
        spec, summary, samples = self.result.spec, self.result.summary, self.samples
        summary.torch, summary.processor = torch.__version__, hardware(spec.run.device)
        summary.kernels, summary.data = self.kernels, samples.digest
        summary.trace, summary.source = files_digest(spec), spec.source
        if spec.run.evaluate_on != "clients":
            summary.test_samples = len(samples.test_labels)
        if self.planned.seed == spec.run.seed and is_own(spec, samples):
            summary.code = self.code

    def _history_start(self) -> str:
        """What the chain of digests starts from."""
        made = self.result.summary
        digests = {"data": made.data, "files": made.trace, "source": made.source}
        return history_start(self.result.spec, self.planned.seed, **digests)

    @cached_property
    def code(self) -> dict[str, str]:
        """Digests of network, initial model, loss and metrics, by name."""
        return digests_of(self.flat, self.aggregator.initial, self.samples)

    @property
    def over(self) -> bool:
        """Whether the run has ended."""
        ended = self.failed or self.aggregator.stopped
        timeline = self.aggregator.timeline
        return ended or (timeline.ended and self.reached == timeline.updates - 1)

    def record(self, event: ServerVersion | NonFiniteUpdate) -> None:
        """Record a moment of the run."""
        if isinstance(event, NonFiniteUpdate):
            about = event.clients, event.server_step, event.time
            error = NonFiniteUpdate(*about, self.label)
            self._cause = error.cause
            self.result.summary.status, self.result.error = "partial", error
            self.failed = True
            return
        self.reached = event.version
        if not self.began:
            self.began = perf_counter() - self._before
        self.steps += event.steps
        told = self.recorder.count
        self.recorder.observe(event)
        self._keep_final()
        self._keep_best(told)
        if self.observer is not None:
            self._tell(self.observer, told)
        if self.tracker is not None and self.recorder.last is not None:
            self.tracker.observe(self.recorder.rows(), self.recorder.last.mean)
        self.ended = perf_counter()

    def mark(self) -> Callable[[], None]:
        """A function that forgets all that was recorded since: it is made again.

        Nobody is told of an evaluation twice.
        """
        aggregator, recorder, count = self.aggregator, self.recorder, self.recorder.count
        place, kept = (aggregator.version, aggregator.state), (self._final, self._best)
        reached, steps, last = self.reached, self.steps, recorder.last

        def go_back() -> None:
            recorder.forget_after(count)
            (aggregator.version, aggregator.state), (self._final, self._best) = place, kept
            self.reached, self.steps, recorder.last = reached, steps, last

        return go_back

    def _keep_final(self) -> None:
        """Keep the model of the final numbers: a last round may end after the horizon."""
        count, last = self.recorder.count, self.recorder.last
        before = count and self.recorder.times[count - 1] <= required(self.result.spec.run.horizon)
        if before and last is not None:
            self._final = last.server

    def _keep_best(self, first: int) -> None:
        """Keep the server model if one of the new evaluations is the best."""
        last, spec = self.recorder.last, self.result.spec
        if spec.run.keep != "best" or self.recorder.count == first or last is None:
            return
        rows = self.recorder.rows()
        best = best_row(rows, self.result.leading, spec.run.horizon)
        if best is not None and (number := rows.index(best)) >= first:
            self._best = number, last.server

    def _tell(self, observer: Observer, first: int) -> None:
        """Tell the observer of new evaluations, until it ends the run."""
        last = self.recorder.last
        first = max(first, self._told)
        for number, row in enumerate(self.recorder.rows(first), start=first + 1):
            assert last is not None
            self._told = number
            made = evaluation(
                self.result.spec.name, row, self.result.metrics, partial(self._network, last.server)
            )
            if wants_to_stop(observer, made):
                self.recorder.drop_after(number)
                self.aggregator.stopped = True
                return

    def _network(self, server: Vector) -> nn.Module:
        """A network of its own with the weights of a server model."""
        assert self._new_network is not None
        module = self._new_network(self.planned.seed)
        state = self.evaluate.state_dict(server)
        module.load_state_dict({k: v for k, v in state.items() if not k.startswith(OF_LOSS)})
        return module

    @property
    def time(self) -> float:
        """Simulated time of the last update."""
        version = self.aggregator.version
        return 0.0 if version < 0 else self.aggregator.timeline.time(version)

    @property
    def steps_left(self) -> int:
        """Local steps that the rest of the run will use, as far as this is known."""
        return max(0, self.planned.schedule.used_steps - self._steps_before)

    @property
    def largest_checkpoint(self) -> int:
        """About the most bytes that a checkpoint may have."""
        models = 2 + self.planned.schedule.clients * (1 + self.aggregator.memory.vectors)
        return models * self.flat.vector.nbytes

    def check_savable(self) -> None:
        """Raise `NoSnapshot` if the state of the method is known not to be plain data."""
        pack(self.aggregator.state, self._kinds)

    def saved(self, event: ServerVersion, machine_seconds: float) -> Tree:
        """The run at this moment, as plain data, and its machine time since it began here."""
        saved = SavedSeed(
            perf_counter() - self.began,
            self._machine_before + machine_seconds,
            event.snapshot(),
            self.recorder.saved(),
            None if self.tracker is None else self.tracker.saved(),
            self._best,
        )
        return pack(saved, self._kinds)

    def restore(self, content: Tree) -> None:
        """Go on from what was saved; `NoSnapshot` if this cannot be, and nothing is changed."""
        try:
            saved = unpack(content, self._kinds, self.flat.vector)
            assert isinstance(saved, SavedSeed)
        except (AssertionError, KeyError, TypeError, ValueError):
            raise NoSnapshot("its content is not that of a checkpoint") from None
        if saved.best is not None and saved.best[0] >= self._known_evaluations(saved.recorded):
            raise NoSnapshot("its best model is of an evaluation that this run does not have")
        if self.tracker is not None and saved.tracked is not None:
            self.tracker.restore(saved.tracked)
        self.aggregator.restore(saved.snapshot)
        self.reached = saved.snapshot.version
        self.recorder.restore(saved.recorded, self.reached)
        self._keep_final()
        self._best = saved.best
        if (again := told_again(self.observer)) is not None:
            self._tell(again, 0)
        if self.tracker is not None:
            self.tracker.drop_after(self.recorder.count)
        self._before, self._machine_before = saved.seconds, saved.machine_seconds
        known = self.aggregator.timeline.known
        self._steps_before = int(known.steps[known.used_by <= self.reached].sum())
        self.result.steps_before += self._steps_before
        self.result.seconds_before += self._machine_before

    def _known_evaluations(self, recorded: Recorded) -> int:
        """How many of the evaluations of a checkpoint this run has, too."""
        pairs = zip(recorded.times.tolist(), self.recorder.times.tolist(), strict=False)
        return next(
            (n for n, (there, here) in enumerate(pairs) if there != here), len(recorded.times)
        )

    @property
    def _kinds(self) -> Kinds:
        """Named tuples in a checkpoint."""
        own = named_kinds((self.aggregator.state, self.aggregator.server_states))
        return {SavedSeed, Recorded, Observation, Tracked, BoundRow, Point, *KINDS, *own}

    def interrupt(self) -> None:
        """Note Ctrl-C or an error of the user's: the result is partial unless the run has ended."""
        self.result.interrupted = True
        if not self.over:
            self.result.summary.status = "partial"

    def hand_in(self) -> None:
        """Put the evaluations into the result, once."""
        if self._handed_in:
            return
        self._handed_in = True
        rows, last = self.recorder.rows(), self.recorder.last
        self.result.rows += rows
        self.result.bounds += self.tracker.rows if self.tracker else []
        if last is not None:
            whole = self.over and not self.failed
            end: Status = "stopped" if self.aggregator.stopped else "complete"
            end = "diverged" if diverged(rows[-1]) else end
            record = replace(
                run_record(self.result.spec.name, rows[-1], end if whole else "partial"),
                wall_seconds=self.ended - self.began,
                mean_model=self._mean_scores(last.mean),
                refused_updates=last.refused,
                decoding_failures=last.wrapped,
                cause=self._cause,
            )
            summary = self.result.summary
            summary.runs = (*summary.runs, record)
            summary.status = worst([summary.status, record.status])
            kept = last.server if self._best is None else self._best[1]
            self.result.states[self.planned.seed] = self.evaluate.state_dict(kept)

    def _mean_scores(self, mean: Vector) -> dict[str, float]:
        """Metrics and loss of the mean model, by name; NaN if it is they that have failed."""
        names = (*self.recorder.metrics, LOSS.name)
        try:
            loss, *values = self.judge.measure(mean).tolist()
        except Exception as error:
            if not self.result.interrupted or own_failure(error) is None:
                raise
            return dict.fromkeys(names, nan)
        return dict(zip(names, (*values, loss), strict=True))

    @property
    def describes(self) -> bool:
        """Whether this is the first seed, which tells who trained the model.

        The other seeds differ only by chance.
        """
        return self.planned.seed == self.result.spec.run.seed

    @property
    def foreseen(self) -> bool:
        """Whether it is known before the run who will train the model."""
        method = self.planned.method
        return not method.run_policy.grows and is_ours(method)

    def describe(self, trained: Trained | None = None) -> None:
        """Note who trained the model, as it was foreseen, and whom it serves.

        Methods that are not linear in the models have no audit.
        """
        planned, summary = self.planned, self.result.summary
        if not (timeline := self.aggregator.timeline).complete:  # its schedule has grown
            planned = replace(planned, schedule=timeline.schedule, made=True)
        whole = summary.status not in ("partial", "stopped")
        trained = trained or who_trains(planned, audited=whole)
        self.result.participation = trained.participation
        summary.audit = trained.audit if whole else None
        if summary.status == "partial":
            return
        if self._final is not None:
            metric = leading(summary.metrics)
            summary.served = per_client_scores(planned, self.clients, metric, self._final)
