"""The gradient of a network as a list of kernel calls, recorded once.

In a plain step of a small network, autograd, dispatch and Python take longer than the arithmetic. A
trace is the list of calls that autograd made for one batch, and later batches of that shape only
repeat it: the same kernels in the same order, therefore the same bits, which is checked before a
trace is used. Whether a batch goes through a trace or through autograd changes no result.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import islice
from statistics import median
from time import perf_counter, process_time
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.func import functional_call

from favano.training.flat import FlatModel
from favano.training.kernel_sets import arranged, using
from favano.training.processor_time import Clock, processor_seconds
from favano.training.task import Loss, Task, plain_gradient
from favano.training.trace_code import Calls, straight_line
from favano.types import Kernels

Batch: TypeAlias = tuple[Tensor, Tensor]

FEWEST = 20_000  # local steps for which a first trace, with its two seconds of imports, pays
FEWEST_EACH = 1_000  # the same for each further length of a batch
HEAVY = 0.02  # processor seconds of a plain step from which on arithmetic dominates
_TRIALS = 5
_EXAMPLES = 3  # batches a trace is checked on


class TraceReport(NamedTuple):
    """Lengths of batches whose gradients are computed by a trace; others go through autograd."""

    lengths: tuple[int, ...]
    seconds: float  # spent on tracing


NO_TRACE = TraceReport((), 0.0)


class GradientTrace:
    """Traces of the gradient, one per shape of a batch, for one model, loss and set of kernels."""

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
        calls = self._traces.get(features.shape)
        if calls is None:
            return False
        with torch.inference_mode():
            calls(features, labels)
        return True

    def prepare(self, batches: Sequence[Batch]) -> bool:
        """Trace the gradient for batches of one shape; the trace is kept if it is exact and faster.

        Exact: on all of `batches`, gradient and buffers equal those of autograd bit for bit. A
        network that branches on values, or draws random numbers, fails here and stays with
        autograd. Faster: a few steps with it take less time than without, measured in turns.
        """
        model, shape = self._model, batches[0][0].shape
        start, was_training = model.snapshot(), model.module.training
        model.module.train()
        try:
            if self._is_heavy(batches[0]) or not self._trace(batches[0]):
                return False
            if all(self._agrees(start, batch) for batch in batches) and self._pays(batches[0]):
                return True
            del self._traces[shape]
            return False
        finally:
            model.load(start)
            model.module.train(was_training)

    def _is_heavy(self, batch: Batch) -> bool:
        """Whether even the fastest of a few plain steps is so long that a trace gains little."""
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
        except Exception:  # a network that cannot be traced stays with autograd
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
        found = []
        for way in (self._plain, self.fill):
            self._model.load(start)
            self._model.gradient.zero_()
            way(*batch)
            found.append(torch.cat([self._model.gradient, self._model.snapshot()]))
        return torch.equal(*found)


def trace_gradients(gradient: GradientTrace, task: Task, steps: int) -> TraceReport:
    """Trace the batch lengths for which it pays, given the number of local steps of all runs."""
    if steps < FEWEST:
        return NO_TRACE
    began, found = perf_counter(), []
    shares = task.batches.lengths()
    with using(gradient.kernels):
        for length in sorted(shares, key=shares.__getitem__, reverse=True):
            if steps * shares[length] < FEWEST_EACH:
                break
            if not gradient.prepare(_examples(task, length, gradient)):
                break
            found.append(length)
    return TraceReport(tuple(found), perf_counter() - began)


def _examples(task: Task, length: int, gradient: GradientTrace) -> list[Batch]:
    """A few batches of this length, of different clients if possible."""
    stream = task.batches
    places = (
        (client, step)
        for client, part in enumerate(stream.parts)
        for step in {0, (len(part) - 1) // stream.batch_size}
        if stream.length(client, step) == length
    )
    batches = [task.batch(*place, gradient.dtype) for place in islice(places, _EXAMPLES)]
    return [(arranged(features, gradient.kernels), labels) for features, labels in batches]


def _trace(model: FlatModel, loss: Loss, batch: Batch) -> Calls:
    """The calls that fill the model's gradient for batches like this one."""
    from torch.fx.experimental.proxy_tensor import make_fx  # its first use imports for a second

    parameters, buffers = model.tied()
    wanted = [name for name, parameter in parameters.items() if parameter.requires_grad]
    used: list[Tensor] = []

    def gradients(
        weights: list[Tensor],
        state: list[Tensor],
        one: Tensor,
        key: Tensor,
        features: Tensor,
        labels: Tensor,
    ) -> list[Tensor]:
        named = dict(zip(parameters, weights, strict=True))
        with model.drawing(key):
            output = functional_call(
                model.module, (named, dict(zip(buffers, state, strict=True))), (features,)
            )
            value = loss(output, labels)
        found = torch.autograd.grad(value, [named[name] for name in wanted], one, allow_unused=True)
        given = zip(wanted, found, strict=True)
        kept = {name: gradient for name, gradient in given if gradient is not None}
        used[:] = [place for name in kept if (place := parameters[name].grad) is not None]
        return list(kept.values())

    weights = [p.detach().clone().requires_grad_(p.requires_grad) for p in parameters.values()]
    state = [buffer.clone() for buffer in buffers.values()]
    one = torch.ones((), dtype=model.vector.dtype)
    key = one if model.draws is None else model.draws.key  # filled anew for each step
    traced = make_fx(gradients)(weights, state, one, key.clone(), *batch)
    fixed = [*(p.detach() for p in parameters.values()), *buffers.values(), one, key]
    return straight_line(traced.graph, fixed, used)
