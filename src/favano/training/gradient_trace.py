"""The gradient of a network as a fixed list of kernel calls, recorded once.

In a step of a small network, autograd, dispatch and Python take more time than the arithmetic. A
trace is the list of calls that autograd made for one batch; later batches of that shape repeat it.
The same kernels in the same order give the same bits, which is checked before a trace is used. So
no result depends on whether a batch uses a trace or autograd.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import islice
from statistics import median
from time import perf_counter, process_time
from typing import NamedTuple

import torch
from torch import Tensor, fx

from favano.training.flat import FlatModel
from favano.training.job_watch import Readings, depends_on_values
from favano.training.kernel_sets import arranged, using
from favano.training.objective import Loss, hooked
from favano.training.processor_time import Clock, processor_seconds
from favano.training.task import Batch, Task, plain_gradient
from favano.training.trace_code import Calls, straight_line
from favano.types import Kernels

FEWEST = 20_000  # local steps that make up for a first trace and its two seconds of imports
FEWEST_EACH = 1_000  # the same for each further length of a batch
HEAVY = 0.02  # processor seconds; in a step this long, arithmetic outweighs all else
_TRIALS = 5
_EXAMPLES = 3  # batches that a trace is checked on


class TraceReport(NamedTuple):
    """Lengths of the batches whose gradients are computed by a trace, not by autograd."""

    lengths: tuple[int, ...]
    seconds: float  # time of tracing


NO_TRACE = TraceReport((), 0.0)


class TraceFailed(Exception):
    """A trace has failed in the middle of a job, and is not used again."""


class GradientTrace:
    """Gradients by traces, for one model, loss and set of kernels; one trace per batch shape."""

    def __init__(
        self,
        model: FlatModel,
        loss: Loss,
        kernels: Kernels | None = None,
        clock: Clock = process_time,
    ) -> None:
        self._model, self._plain = model, partial(plain_gradient, model, loss)
        self._loss, self.kernels, self._clock = loss, kernels, clock
        self._traces: dict[torch.Size, Calls] = {}
        self.dtype = model.vector.dtype

    def fill(self, features: Tensor, labels: Tensor) -> bool:
        """Fill the model's `gradient` and move its buffers; False if the shape has no trace."""
        return self._run([(features, labels)])

    def descend(self, batches: Sequence[Batch], rate: float) -> bool:
        """Take a step of SGD for each of these batches, which have the same shape.

        In one call, this takes less time than step by step. False if the shape has no trace.
        """
        return self._run(batches, rate)

    def _run(self, batches: Sequence[Batch], rate: float | None = None) -> bool:
        calls = self._traces.get(batches[0][0].shape)
        if calls is None:
            return False
        try:
            calls(batches, rate)
        except Exception as error:
            del self._traces[batches[0][0].shape]  # autograd from now on
            raise TraceFailed from error
        return True

    def prepare(self, batches: Sequence[Batch]) -> bool:
        """Trace the gradient for batches of one shape; keep the trace if it is right and faster.

        It is right if gradient and buffers are those of autograd, to the bit, on all of `batches`.
        Networks that branch on values or draw random numbers fail here and stay with autograd, as
        do those in which numbers or shapes that depend on values come to Python, which would take
        them for constants. It is faster if a few steps take less time than with autograd, measured
        in turns.
        """
        model, shape = self._model, batches[0][0].shape
        with model.unchanged() as start:
            model.module.train()
            if self._is_heavy(batches[0]) or not self._trace(batches[0]):
                return False
            good = all(self._agrees(start, batch) for batch in batches) and self._pays(batches[0])
            if not good:
                del self._traces[shape]
            return good

    def _is_heavy(self, batch: Batch) -> bool:
        """Whether even the fastest of a few steps takes so long that a trace gains little."""
        for _ in range(_TRIALS):
            began = self._clock()
            self._plain(*batch)
            if self._clock() - began < HEAVY:
                return False
        return True

    def _trace(self, batch: Batch) -> bool:
        try:
            self._traces[batch[0].shape] = _trace(self._model, self._loss, batch)
            self.fill(*batch)
        except Exception:  # the network cannot be traced: use autograd
            self._traces.pop(batch[0].shape, None)
            return False
        return True

    def _pays(self, batch: Batch) -> bool:
        """Whether the trace is faster than autograd."""
        taken = processor_seconds(
            {True: partial(self.fill, *batch), False: partial(self._plain, *batch)}, self._clock
        )
        return median(taken[True]) < median(taken[False])

    def _agrees(self, start: Tensor, batch: Batch) -> bool:
        """Whether autograd and the trace give the same gradient and the same buffers."""
        outcomes = []
        for way in (self._plain, self.fill):
            self._model.load(start)
            self._model.gradient.zero_()
            way(*batch)
            outcomes.append(torch.cat([self._model.gradient, self._model.snapshot()]))
        return torch.equal(*outcomes)


def trace_gradients(gradient: GradientTrace, task: Task, steps: int) -> TraceReport:
    """Trace the lengths of batches that are worth it for this number of local steps in all."""
    if steps < FEWEST:
        return NO_TRACE
    began, lengths = perf_counter(), []
    shares = task.batches.lengths()
    with using(gradient.kernels):
        for length in sorted(shares, key=shares.__getitem__, reverse=True):
            if steps * shares[length] < FEWEST_EACH:
                break
            if not gradient.prepare(_examples(task, length, gradient)):
                break
            lengths.append(length)
    return TraceReport(tuple(lengths), perf_counter() - began)


def _examples(task: Task, length: int, gradient: GradientTrace) -> list[Batch]:
    """A few batches of this length, from different clients if possible."""
    stream = task.batches
    places = (
        (client, step)
        for client, part in enumerate(stream.parts)
        for step in {0, (len(part) - 1) // stream.batch_size}
        if stream.length(client, step) == length
    )
    batches = [task.batch(*place, gradient.dtype) for place in islice(places, _EXAMPLES)]
    return [(arranged(features, gradient.kernels), labels) for features, labels in batches]


def _check_shapes(graph: fx.Graph) -> None:
    """Raise an error if a shape in the graph depends on values: later ones may have another."""
    for node in graph.nodes:
        given = fx.map_arg(node.args, lambda node: node.meta.get("val"))
        if depends_on_values(node.target, given):
            raise NotImplementedError(f"{node.target} in a trace")


def _trace(model: FlatModel, loss: Loss, batch: Batch) -> Calls:
    """The calls that fill the model's gradient for batches like this one."""
    from torch.fx.experimental.proxy_tensor import make_fx  # takes a second to import

    parameters, buffers = model.tied()
    used: list[Tensor] = []

    def gradients(
        weights: list[Tensor],
        state: list[Tensor],
        unit: Tensor,
        key: Tensor,
        features: Tensor,
        labels: Tensor,
    ) -> list[Tensor]:
        named = dict(zip(parameters, weights, strict=True))
        others = dict(zip(buffers, state, strict=True))
        with Readings() as readings, model.drawing(key):
            value = model.objective.at(named, others, features, lambda made: loss(made, labels))
        if readings.reads_values:
            raise NotImplementedError("a number that Python reads, in a trace")
        slopes = torch.autograd.grad(value, [*named.values()], unit, allow_unused=True)
        given = zip(named, slopes, strict=True)
        kept = {
            name: hooked(parameters[name], gradient)
            for name, gradient in given
            if gradient is not None
        }
        used[:] = [place for name in kept if (place := parameters[name].grad) is not None]
        return list(kept.values())

    weights = [p.detach().clone().requires_grad_() for p in parameters.values()]
    state = [buffer.clone() for buffer in buffers.values()]
    unit = torch.ones((), dtype=model.vector.dtype)
    key = unit if model.draws is None else model.draws.key  # set in every step
    traced = make_fx(gradients)(weights, state, unit, key.clone(), *batch)
    _check_shapes(traced.graph)
    fixed = [*(p.detach() for p in parameters.values()), *buffers.values(), unit, key]
    return straight_line(traced.graph, fixed, used, model.weights, model.gradient)
