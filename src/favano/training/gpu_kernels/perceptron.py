"""Whole steps of perceptrons with one hidden layer: one program per lane does all of it.

Reading the mini-batch, both layers, the loss, the gradients and the descent are one kernel. Inputs
are read twice from the data set as they are, and never written. A lane makes its next steps without
waiting for others, and one whose job has ended costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

from favano.data.transforms import byte_table
from favano.models.perceptron import Perceptron
from favano.training.device_tables import DeviceJobs
from favano.training.gpu_kernels.blocks import tile, triton_precision
from favano.training.lane_state import LaneState
from favano.training.roster import Roster
from favano.training.task import Task
from favano.types import Precision, Stack

_PERCEPTRON = [nn.Flatten, nn.Linear, nn.ReLU, nn.Linear]  # beside our own
_MOST = 4096  # hidden numbers or logits of a batch, which stay in registers
_WIDTH = 64  # inputs of a sample that are read at once
_WARPS, _STAGES = 2, 3


@triton.jit
def _chosen(
    orders, sizes, batches, row, step, longest, BATCH: tl.constexpr, SLOTS: tl.constexpr,
    SAMPLES: tl.constexpr,
):  # fmt: skip
    """The samples of a lane's mini-batch, and which of them exist; the others are padding."""
    count = tl.load(batches + row)
    place = tl.arange(0, SAMPLES)
    within = step % count * BATCH + place
    valid = (place < BATCH) & (within < tl.load(sizes + row))
    return tl.load(orders + step // count % SLOTS * longest + within, mask=valid, other=0), valid


@triton.jit
def _inputs(
    samples, lines, chosen, valid, first, INPUTS: tl.constexpr, PIXELS: tl.constexpr,
    WIDTH: tl.constexpr, SCALED: tl.constexpr,
):  # fmt: skip
    """Some inputs of all samples, (samples, WIDTH); what is padding has no meaning."""
    place = first + tl.arange(0, WIDTH)
    there = valid[:, None] & (place < INPUTS)[None, :]
    values = tl.load(samples + chosen[:, None] * INPUTS + place[None, :], mask=there, other=0)
    values = values.to(tl.float32)
    if SCALED:
        channel, known = lines + place // PIXELS * 2, place < INPUTS
        shift = tl.load(channel, mask=known, other=0.0)
        slope = tl.load(channel + 1, mask=known, other=0.0)
        values = values * slope[None, :] + shift[None, :]
    return values


@triton.jit
def _descend(
    models, weights, starts, corrections, place, known, gradient, rate, pull,
    PULLED: tl.constexpr, CORRECTED: tl.constexpr,
):  # fmt: skip
    """A step of some weights of a lane: the local rule. They are read at `models`."""
    weight = tl.load(models + place, mask=known)
    if PULLED:
        gradient += pull * (weight - tl.load(starts + place, mask=known))
    if CORRECTED:
        gradient += tl.load(corrections + place, mask=known)
    tl.store(weights + place, weight - rate * gradient, mask=known)


@triton.jit
def _product(left, right, HALF: tl.constexpr, PRECISION: tl.constexpr):
    """Factors are rounded to bf16 if asked."""
    if HALF:
        left, right = left.to(tl.bfloat16), right.to(tl.bfloat16)
    return tl.dot(left, right, input_precision=PRECISION)


@triton.jit
def _rounded(values, HALF: tl.constexpr):
    """What lies between two layers."""
    return values.to(tl.bfloat16).to(tl.float32) if HALF else values


@triton.jit
def _step(
    models, weights, starts, corrections, samples, labels, lines, chosen, valid, rate, pull,
    INPUTS: tl.constexpr, HIDDEN: tl.constexpr, CLASSES: tl.constexpr, PIXELS: tl.constexpr,
    SAMPLES: tl.constexpr, WIDE: tl.constexpr, MANY: tl.constexpr, WIDTH: tl.constexpr,
    SCALED: tl.constexpr, PULLED: tl.constexpr, CORRECTED: tl.constexpr,
    HALF: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """One step of one lane, from a model to weights, which may be the same.

    SAMPLES, WIDE and MANY are the powers of two that hold its sizes.
    """
    hidden, some, many = tl.arange(0, WIDE), tl.arange(0, WIDTH), tl.arange(0, MANY)
    is_hidden, is_class = hidden < HIDDEN, many < CLASSES
    BIAS: tl.constexpr = HIDDEN * INPUTS
    SECOND: tl.constexpr = BIAS + HIDDEN
    LAST: tl.constexpr = SECOND + CLASSES * HIDDEN

    # Forward.
    sums = tl.zeros((SAMPLES, WIDE), tl.float32)
    for first in range(0, INPUTS, WIDTH):
        inputs = _inputs(samples, lines, chosen, valid, first, INPUTS, PIXELS, WIDTH, SCALED)
        known = is_hidden[:, None] & (first + some < INPUTS)[None, :]
        weight = tl.load(
            models + hidden[:, None] * INPUTS + first + some[None, :], mask=known, other=0.0
        )
        sums += _product(inputs, tl.trans(weight), HALF, PRECISION)
    bias = _rounded(tl.load(models + BIAS + hidden, mask=is_hidden, other=0.0), HALF)
    sums = _rounded(sums + bias[None, :], HALF)
    active = tl.where(sums <= 0, 0.0, sums)  # NaN stays
    at_second = SECOND + many[:, None] * HIDDEN + hidden[None, :]
    in_second = is_class[:, None] & is_hidden[None, :]
    second = tl.load(models + at_second, mask=in_second, other=0.0)
    bias = _rounded(tl.load(models + LAST + many, mask=is_class, other=0.0), HALF)
    logits = _rounded(_product(active, tl.trans(second), HALF, PRECISION) + bias[None, :], HALF)

    # Cross-entropy, the mean over the samples.
    logits = tl.where(is_class[None, :], logits, float("-inf"))
    powers = tl.exp(logits - tl.max(logits, 1)[:, None])
    label = tl.load(labels + chosen, mask=valid, other=0)
    error = powers / tl.sum(powers, 1)[:, None] - (label[:, None] == many[None, :]).to(tl.float32)
    error = tl.where(valid[:, None], error, 0.0) / tl.sum(valid.to(tl.float32))
    error = _rounded(error, HALF)

    # Backward; what is still needed is read before it is changed.
    back = _rounded(_product(error, second, HALF, PRECISION), HALF)
    back = tl.where(sums <= 0, 0.0, back)
    of_second = _rounded(_product(tl.trans(error), active, HALF, PRECISION), HALF)
    of_last, of_bias = _rounded(tl.sum(error, 0), HALF), _rounded(tl.sum(back, 0), HALF)
    _descend(
        models, weights, starts, corrections, at_second, in_second, of_second, rate, pull,
        PULLED, CORRECTED,
    )  # fmt: skip
    _descend(
        models, weights, starts, corrections, LAST + many, is_class, of_last, rate, pull,
        PULLED, CORRECTED,
    )  # fmt: skip
    _descend(
        models, weights, starts, corrections, BIAS + hidden, is_hidden, of_bias, rate, pull,
        PULLED, CORRECTED,
    )  # fmt: skip
    back = tl.trans(back)
    for first in range(0, INPUTS, WIDTH):
        inputs = _inputs(samples, lines, chosen, valid, first, INPUTS, PIXELS, WIDTH, SCALED)
        gradient = _rounded(_product(back, inputs, HALF, PRECISION), HALF)
        place = hidden[:, None] * INPUTS + first + some[None, :]
        known = is_hidden[:, None] & (first + some < INPUTS)[None, :]
        _descend(
            models, weights, starts, corrections, place, known, gradient, rate, pull,
            PULLED, CORRECTED,
        )  # fmt: skip


@triton.jit(do_not_specialize=["most"])
def _perceptron_kernel(
    models, rates, rows, steps, ends, rules, orders, pulls, starts, corrections,
    sizes, batches, samples, labels, lines, apart, orders_apart, kept_apart, longest, most,
    INPUTS: tl.constexpr, HIDDEN: tl.constexpr, CLASSES: tl.constexpr, PIXELS: tl.constexpr,
    BATCH: tl.constexpr, SLOTS: tl.constexpr,
    SAMPLES: tl.constexpr, WIDE: tl.constexpr, MANY: tl.constexpr, WIDTH: tl.constexpr,
    SCALED: tl.constexpr, PULLED: tl.constexpr, CORRECTED: tl.constexpr,
    HALF: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """The next steps of one lane, until its job ends, at `most` so many; none with other rules."""
    lane = tl.program_id(0).to(tl.int64)
    row, rate, first = tl.load(rows + lane), tl.load(rates + lane), tl.load(steps + lane)
    last, pull = tl.minimum(tl.load(ends + lane), first + most), 0.0
    if tl.load(rules + lane) != 0:
        last = first
    models += lane * apart
    if PULLED:
        pull = tl.load(pulls + lane)
        starts += lane * kept_apart
    if CORRECTED:
        corrections += lane * kept_apart
    for step in range(first, last):
        chosen, valid = _chosen(
            orders + lane * orders_apart, sizes, batches, row, step, longest, BATCH, SLOTS, SAMPLES
        )
        _step(
            models, models, starts, corrections, samples, labels, lines, chosen, valid, rate, pull,
            INPUTS, HIDDEN, CLASSES, PIXELS, SAMPLES, WIDE, MANY, WIDTH,
            SCALED, PULLED, CORRECTED, HALF, PRECISION,
        )  # fmt: skip
        tl.debug_barrier()  # threads read what others have written
    tl.store(steps + lane, tl.maximum(first, last))


@triton.jit(do_not_specialize=["begin"])
def _jobs_kernel(
    models, starts, ends, rows, firsts, counts, epochs, rates, pulls, orders,
    sizes, batches, samples, labels, lines, begin, apart, longest,
    INPUTS: tl.constexpr, HIDDEN: tl.constexpr, CLASSES: tl.constexpr, PIXELS: tl.constexpr,
    BATCH: tl.constexpr,
    SAMPLES: tl.constexpr, WIDE: tl.constexpr, MANY: tl.constexpr, WIDTH: tl.constexpr,
    SCALED: tl.constexpr, PULLED: tl.constexpr, HALF: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """All steps of one job, from its start model to another row."""
    job = begin + tl.program_id(0)
    start = models + tl.load(starts + job) * apart
    weights = models + tl.load(ends + job) * apart
    row, rate, first = tl.load(rows + job), tl.load(rates + job), tl.load(firsts + job)
    epoch, pull, place = tl.load(epochs + job), 0.0, tl.arange(0, SAMPLES)
    count, size, model = tl.load(batches + row), tl.load(sizes + row), start
    if PULLED:
        pull = tl.load(pulls + job)
    for step in range(first, first + tl.load(counts + job)):
        within = step % count * BATCH + place
        valid = (place < BATCH) & (within < size)
        order = orders + (epoch + step // count) * longest
        chosen = tl.load(order + within, mask=valid, other=0)
        _step(
            model, weights, start, start, samples, labels, lines, chosen, valid, rate, pull,
            INPUTS, HIDDEN, CLASSES, PIXELS, SAMPLES, WIDE, MANY, WIDTH,
            SCALED, PULLED, False, HALF, PRECISION,
        )  # fmt: skip
        model = weights
        tl.debug_barrier()  # threads read what others have written


@dataclass(frozen=True, eq=False)
class PerceptronSteps:
    """Makes steps of all lanes, in place."""

    inputs: int
    hidden: int
    classes: int
    task: Task  # its samples are floats (N, ...), or bytes (N, C, H, W)
    roster: Roster
    lines: Tensor | None  # (C, 2) shift and slope, by which bytes become inputs
    slots: int
    precision: Precision

    def __call__(self, lanes: LaneState, most: int) -> None:
        """At most so many steps per lane, until its job ends; none with other rules."""
        models, orders, unused = lanes.models, lanes.orders, lanes.models
        kept = [tensor for tensor in (lanes.starts, lanes.corrections) if tensor is not None]
        _perceptron_kernel[len(models),](
            models, lanes.rates, lanes.rows, lanes.steps, lanes.ends, lanes.rules, orders,
            lanes.pulls,
            unused if lanes.starts is None else lanes.starts,
            unused if lanes.corrections is None else lanes.corrections,
            *self._data(unused), models.stride(0), orders.stride(0),
            kept[0].stride(0) if kept else 0,
            orders.shape[1] // self.slots, most, SLOTS=self.slots,
            PULLED=lanes.starts is not None, CORRECTED=lanes.corrections is not None,
            **self._sizes(), num_warps=_WARPS, num_stages=_STAGES,
        )  # fmt: skip

    def train(self, models: Stack, jobs: DeviceJobs, orders: Tensor, first: int, last: int) -> None:
        """All steps of jobs first..last-1, between rows of a table of models."""
        _jobs_kernel[last - first,](
            models, jobs.start, jobs.end, jobs.row, jobs.first_step, jobs.steps, jobs.epoch,
            jobs.rate, models if jobs.pull is None else jobs.pull, orders, *self._data(models),
            first, models.stride(0), orders.shape[1], PULLED=jobs.pull is not None,
            **self._sizes(), num_warps=_WARPS, num_stages=_STAGES,
        )  # fmt: skip

    def _data(self, unused: Tensor) -> tuple[Tensor, ...]:
        """What all jobs read."""
        lines = unused if self.lines is None else self.lines
        return (
            self.roster.size, self.roster.batches, self.task.features, self.task.labels, lines,
        )  # fmt: skip

    def _sizes(self) -> dict[str, object]:
        """What kernels are compiled for."""
        samples, batch = self.task.features, self.task.batches.batch_size
        return {
            "INPUTS": self.inputs, "HIDDEN": self.hidden, "CLASSES": self.classes,
            "PIXELS": samples[0, 0].numel(), "BATCH": batch, "SAMPLES": tile(batch),
            "WIDE": tile(self.hidden), "MANY": tile(self.classes),
            "WIDTH": tile(self.inputs, _WIDTH), "SCALED": self.lines is not None,
            "HALF": self.precision == "bf16", "PRECISION": triton_precision(self.precision),
        }  # fmt: skip


def perceptron_steps(
    network: nn.Module, task: Task, roster: Roster, slots: int, precision: Precision
) -> PerceptronSteps | None:
    """The steps of this network, if it is a perceptron that fits into a program."""
    layers = _layers(network)
    if layers is None:
        return None
    (hidden, inputs), (classes, _) = (layer.weight.shape for layer in layers)
    batch, whole = task.batches.batch_size, inputs == task.features[0].numel()
    if not whole or tile(batch) * max(tile(hidden), tile(classes)) > _MOST:
        return None
    return PerceptronSteps(inputs, hidden, classes, task, roster, _lines(task), slots, precision)


def _lines(task: Task) -> Tensor | None:
    """Shift and slope of each channel, (C, 2): a table of bytes takes four times as long."""
    if task.preprocessing is None:
        return None
    table = byte_table(task.preprocessing, task.features, torch.float64)
    shift, last = table[:, 0], table[:, -1]
    return torch.stack([shift, (last - shift) / 255], dim=1).float()


def _layers(network: nn.Module) -> tuple[nn.Linear, nn.Linear] | None:
    """Both layers of a perceptron, if all of it is trained."""
    if type(network) is Perceptron:
        first, second = network.hidden, network.output
    elif type(network) is nn.Sequential and [*map(type, network)] == _PERCEPTRON:
        first, second = cast(tuple[nn.Linear, nn.Linear], (network[1], network[3]))
    else:
        return None
    biased = first.bias is not None and second.bias is not None
    trained = all(parameter.requires_grad for parameter in network.parameters())
    return (first, second) if biased and trained else None
