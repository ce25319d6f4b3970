"""Jobs that a kernel trains whole: it reads start models, draws and rates from tables, and no host.

The jobs of a program lie on the device in the order in which they are trained. Orders of samples
are drawn for many jobs at once, as lanes draw them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch

from favano.training.device_draws import to_device
from favano.training.device_tables import DeviceJobs
from favano.training.flat import FlatModel
from favano.training.lane_steps import LaneSteps
from favano.training.lanes import Work
from favano.training.loop import LoopTrainer
from favano.training.roster import Roster, make_roster
from favano.training.rule_table import RuleTable
from favano.types import Floats, Ints, Precision, Stack

if TYPE_CHECKING:
    from favano.training.gpu_kernels.perceptron import PerceptronSteps

_SAMPLES_AT_ONCE = 1 << 24  # in the orders that are drawn at once


class JobTrainer(Protocol):
    """Trains jobs between rows of a table of models."""

    @property
    def orders_at_once(self) -> int:
        """Orders of samples to draw at once."""

    def orders(self, task: int, work: Work) -> Ints:
        """(k,) how many orders of samples each of these jobs reads."""

    def load(self, start: Ints, end: Ints, task: Ints, work: Work) -> None:
        """All jobs, in the order in which they are trained, with the rows of their models."""

    def draw(self, first: int, last: int) -> None:
        """Draw the orders that jobs first..last-1 read; those drawn before are forgotten."""

    def train(self, models: Stack, first: int, last: int) -> None:
        """Train jobs first..last-1, whose orders are drawn; does not wait."""


class PerceptronJobs:
    """Jobs of perceptrons, by one launch of a kernel with a program for each."""

    def __init__(self, kernel: PerceptronSteps, roster: Roster, proximal: Floats) -> None:
        self._kernel, self._roster, self._proximal = kernel, roster, proximal
        self._batches = roster.batches.cpu().numpy()

    @property
    def orders_at_once(self) -> int:
        """Orders of samples to draw at once."""
        return max(1, _SAMPLES_AT_ONCE // self._roster.longest)

    def orders(self, task: int, work: Work) -> Ints:
        """(k,) how many orders of samples each of these jobs reads."""
        first, last = self._epochs(self._roster.first[task] + work.client, work)
        return last - first + 1

    def _epochs(self, row: Ints, work: Work) -> tuple[Ints, Ints]:
        """The first and the last epoch of each job."""
        batches = self._batches[row]
        return work.first_step // batches, (work.first_step + work.steps - 1) // batches

    def load(self, start: Ints, end: Ints, task: Ints, work: Work) -> None:
        """All jobs, in the order in which they are trained, with the rows of their models."""
        like = self._roster.samples
        self._row = self._roster.first[task] + work.client
        self._first, self._last = self._epochs(self._row, work)
        columns = start, end, self._row, work.first_step, work.steps
        # Copies, which are aligned: for each pattern of others there would be another kernel.
        starts, ends, row, first, steps = map(torch.clone, to_device(np.stack(columns), like))
        numbers = to_device(np.stack([work.rate, self._proximal[task]]), like).float()
        rate, pull = map(torch.clone, numbers)
        pulled = pull if self._proximal.any() else None
        epoch = torch.zeros_like(row)
        self._jobs = DeviceJobs(starts, ends, row, first, steps, epoch, rate, pulled)

    def draw(self, first: int, last: int) -> None:
        """Draw the orders that jobs first..last-1 read; those drawn before are forgotten."""
        some = slice(first, last)
        rows, place = np.unique(self._row[some], return_inverse=True)
        low, high = np.full(len(rows), np.iinfo(np.int64).max), np.zeros(len(rows), np.int64)
        np.minimum.at(low, place, self._first[some])
        np.maximum.at(high, place, self._last[some])
        counts = high - low + 1
        begin = np.cumsum(counts) - counts - low
        wanted = np.stack([np.repeat(rows, counts), np.arange(counts.sum())])
        wanted[1] -= np.repeat(begin, counts)
        like = self._roster.samples
        self._orders = like.new_empty(wanted.shape[1], self._roster.longest)
        at, at_once = to_device(wanted, like), self.orders_at_once
        for piece in range(0, wanted.shape[1], at_once):
            some_orders = slice(piece, piece + at_once)
            self._orders[some_orders] = self._roster.shuffled(*at[:, some_orders])
        self._jobs.epoch[some] = to_device(begin[place], like)

    def train(self, models: Stack, first: int, last: int) -> None:
        """Train jobs first..last-1, whose orders are drawn; does not wait."""
        if first < last:
            self._kernel.train(models, self._jobs, self._orders, first, last)


def whole_jobs(
    model: FlatModel, trainers: Sequence[LoopTrainer], precision: Precision
) -> PerceptronJobs | None:
    """A kernel for whole jobs of these trainers, if there is one; all have plain local rules."""
    task, rules = trainers[0].task, [trainer.rule for trainer in trainers]
    roster = make_roster([trainer.task.batches for trainer in trainers], model.vector.device)
    try:
        steps = LaneSteps(model, task, roster, RuleTable(rules), precision)
    except ValueError:  # lanes refuse this network, too, and say why
        return None
    kernel = steps.whole(slots=1)
    proximal = np.array([rule.proximal for rule in rules])
    return None if kernel is None else PerceptronJobs(kernel, roster, proximal)
