"""Lanes on a GPU: a stack of models, which a launch advances by one SGD step.

A lane trains one job: its model is a row of the stack, its position in the batch stream a number on
the device. A launch makes a step of many lanes at once, and on CUDA it is a captured graph.
Finished lanes are refilled between two launches.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from favano.training.cuda_graphs import GraphCache, event_now
from favano.training.device_draws import to_device
from favano.training.flat import FlatModel
from favano.training.lane_network import has_kernels
from favano.training.lane_state import new_lanes
from favano.training.lane_steps import LaneSteps
from favano.training.lanes import Work
from favano.training.loop import LoopTrainer
from favano.training.precision import product_precision
from favano.training.roster import Roster, make_roster
from favano.training.rule_table import RuleTable
from favano.types import Floats, Ints, Mask, Precision, Stack

WIDEST = 64  # lanes that are launched together, in a network with batch statistics
_GRAIN = 4  # their number is padded to a multiple of this or more, so that there are few graphs
_FEWEST = 16  # orders that are drawn at once
_MANY = 128  # busy lanes from which on lanes are refilled less often
_LAUNCHES = 5  # launches between two refillings in that case; jobs often have 5, 10 or 20 steps


class LaunchResult:
    """Lanes that a launch finished, and their end models, perhaps still being computed."""

    def __init__(
        self, lanes: Ints, rows: Stack, width: int, steps: int, losses: Tensor | None = None
    ) -> None:
        """Rows of the lanes, of which the first numbers are the end models; others are finite."""
        self.lanes, self.ends = lanes, rows[:, :width]
        self.steps = steps  # local steps, also in lanes that it did not finish
        finite = rows.isfinite().all(dim=1)  # whole rows are read faster
        self._finite = finite.to("cpu", non_blocking=True)
        self._losses = None if losses is None else losses.to("cpu", non_blocking=True)
        self.arrived = event_now() if rows.is_cuda else None

    def finite(self) -> Mask:
        """Which end models have neither NaN nor infinity; waits for the device."""
        if self.arrived is not None:
            self.arrived.synchronize()
            self.ends.record_stream(torch.cuda.current_stream())
        return np.asarray(self._finite.numpy(), dtype=np.bool_)

    def losses(self) -> Floats | None:
        """Mean losses of the jobs, if they are measured; once `finite` has waited."""
        return None if self._losses is None else np.asarray(self._losses.numpy(), np.float64)


class LaneStack:
    """Trains up to `capacity` jobs at the same time. The order of batches must be `epoch`."""

    def __init__(
        self,
        model: FlatModel,
        trainers: Sequence[LoopTrainer],
        capacity: int,
        precision: Precision = "tf32",
        roster: Roster | None = None,
        widest: int | None = None,  # lanes per launch; fewer if memory is short
    ) -> None:
        self.capacity = capacity
        task, device = trainers[0].task, model.vector.device
        rules = [trainer.rule for trainer in trainers]
        self._proximal = np.array([rule.proximal for rule in rules])  # of each task
        self._rules = RuleTable(rules)
        self._precision: Precision = precision
        self._batch = task.batches.batch_size
        self._roster = roster = roster or make_roster([t.task.batches for t in trainers], device)
        self._together = LaneSteps(model, task, roster, self._rules, precision)
        # Whether any number of lanes is launched together, and the most lanes per launch.
        self.together = self._together.padded and not self._together.norms
        self._widest = min(capacity, widest or (capacity if self.together else WIDEST))
        # A step of a small network is many kernels, each shorter than its launch from Python; a
        # graph launches all of them at once.
        self._captured = GraphCache() if device.type == "cuda" else None
        # End models are without the vectors that begin anew in each job.
        self._width = model.layout.size + self._rules.kept * model.layout.parameters
        # On the host: of each row of the roster, and of each lane.
        self._batches, self._size = roster.batches.cpu().numpy(), roster.size.cpu().numpy()
        on_host = np.zeros((4, capacity), dtype=np.int64)
        self._host_row, self._host_step, self._host_left, self._host_rule = on_host
        # Lanes keep the orders of a few epochs; epoch e is in slot e modulo the number of slots.
        self._slots = 1 + -(-_LAUNCHES // int(self._batches.min()))
        self._drawn = np.full((capacity, self._slots), -1, dtype=np.int64)  # epochs in the slots
        # One lane more, to pad launches with: a graph has a fixed number of lanes.
        samples = self._slots * roster.longest
        losses = any(trainer.measures_loss for trainer in trainers)
        self._lanes = new_lanes(model, rules, self._rules, 1 + capacity, samples, losses=losses)
        self._host_steps = np.ones(capacity, dtype=np.int64)  # of the job in each lane
        # A kernel for all of several steps, of lanes with rule 0.
        plain = not self._rules.number.all() and not losses
        self._whole = self._together.whole(self._slots) if plain else None

    @property
    def device(self) -> torch.device:
        """Where the lanes are."""
        return self._lanes.models.device

    @property
    def quick(self) -> bool:
        """Whether a launch is one kernel."""
        return self._whole is not None and not self._rules

    @property
    def lane_bytes(self) -> int:
        """Bytes that one lane takes all the time."""
        lanes = self._lanes
        tensors = (lanes.models, lanes.starts, lanes.orders, lanes.corrections)
        return sum(
            tensor[0].numel() * tensor.element_size() for tensor in tensors if tensor is not None
        )

    @property
    def free(self) -> Ints:
        """Lanes without a job, the lowest first."""
        return np.flatnonzero(self._host_left == 0)

    def load(self, lanes: Ints, models: Stack, task: Ints, work: Work) -> None:
        """Put jobs into free lanes; each must have at least one step."""
        rows = self._roster.first[task] + work.client
        self._host_row[lanes], self._host_step[lanes] = rows, work.first_step
        self._host_left[lanes], self._host_rule[lanes] = work.steps, self._rules.number[task]
        self._drawn[lanes], self._host_steps[lanes] = -1, work.steps
        since = work.first_step - (0 if work.steps_before is None else work.steps_before)
        real = np.stack([work.rate, self._proximal[task], *self._rules.numbers[:, task]])
        last = work.first_step + work.steps
        whole = np.stack([lanes, rows, work.first_step, last, self._rules.number[task], since])
        on = self._lanes
        uploaded = to_device(np.concatenate([whole, real.view(np.int64)]), on.models)  # at once
        at, numbers = uploaded[0], uploaded[6:].view(torch.float64)
        rate, pull = numbers[:2].to(on.rates.dtype)
        on.places[:, at] = uploaded[1:6]
        on.rates[at] = rate
        if on.losses is not None:
            on.losses[at] = 0.0
        if self._rules:
            on.numbers[:, at] = numbers[2:]
        if on.starts is not None:
            on.pulls[at] = pull
            on.starts[at] = models[:, : on.starts.shape[1]]
        if on.corrections is not None:
            on.corrections[at] = 0.0 if work.correction is None else work.correction
        given = models.shape[1]
        on.models[:, :given].index_copy_(0, at, models)
        if self._rules:  # what begins anew in each job
            on.models[:, given:].index_fill_(0, at, 0.0)

    def launch(self) -> LaunchResult:
        """Advance all lanes by some steps, without waiting for the device.

        Lanes that finish their job are free afterwards. Their models are copied right after the
        last step, so further steps in them do no harm; a kernel of whole steps makes none.
        """
        live = np.flatnonzero(self._host_left)
        left = self._host_left[live]
        launches = _launches(left)
        self._draw_orders(live, launches)
        order = np.argsort(left, kind="stable")
        bounds = np.searchsorted(left[order], np.arange(1, launches + 2)).tolist()
        done = live[order[: bounds[-1]]]  # in the order in which they finish
        # Whole rows are copied faster.
        models = self._lanes.models[:, : self._width] if self._rules else self._lanes.models
        at, ends = to_device(done, models), models.new_empty(len(done), models.shape[1])
        sums = self._lanes.losses
        losses = None if sums is None else sums.new_empty(len(done))
        others = live  # lanes that make their steps together
        if self._whole is not None:
            self._run(("steps", launches), partial(self._whole, self._lanes, launches))
            others = live[self._host_rule[live] > 0]
            bounds = bounds if len(others) else [0, len(done)]
        with product_precision(self._precision):
            for number, (first, last) in enumerate(pairwise(bounds)):
                at_work = others[self._host_left[others] > number]
                if len(at_work):
                    self._advance(at_work, self._host_step[at_work] + number)
                if first < last:
                    torch.index_select(models, 0, at[first:last], out=ends[first:last])
                    if sums is not None and losses is not None:
                        losses[first:last] = sums[at[first:last]]
        steps = np.minimum(left, launches)
        self._host_step[live] += steps
        self._host_left[live] -= steps
        if losses is not None:
            losses /= to_device(self._host_steps[done], models)
        return LaunchResult(done, ends, self._width, int(steps.sum()), losses)

    def compile(self) -> None:
        """Compile the kernels of a step, if it has any."""
        if has_kernels(self._lanes.models):
            from favano.training.gpu_kernels import compile_kernels  # needs triton

            compile_kernels(self.try_launch)

    def try_launch(self) -> None:
        """One step of every lane, to check that memory is sufficient."""
        if self._whole is not None:
            self._whole(self._lanes, 1)
            if not self._rules:
                return
        lanes = torch.arange(self._widest, device=self.device)
        self._together(self._lanes, lanes, self._batch)

    def _draw_orders(self, lanes: Ints, launches: int) -> None:
        """Draw the orders of all epochs that these lanes reach in the next launches."""
        batches, steps = self._batches[self._host_row[lanes]], self._host_step[lanes]
        last = (steps + np.minimum(self._host_left[lanes], launches) - 1) // batches
        epochs = (steps // batches)[:, None] + np.arange(self._slots)
        drawn = self._drawn[lanes[:, None], epochs % self._slots] == epochs
        places = np.nonzero((epochs <= last[:, None]) & ~drawn)
        count = len(places[0])
        if not count:
            return
        wanted = np.stack([lanes[places[0]], epochs[places]])
        self._drawn[wanted[0], wanted[1] % self._slots] = wanted[1]
        size = max(_FEWEST, 1 << (count - 1).bit_length())  # the last order is drawn repeatedly
        padded = wanted[:, np.minimum(np.arange(size), count - 1)]
        self._run(("orders", size), self._shuffle, to_device(padded, self._lanes.models))

    def _shuffle(self, lanes_and_epochs: Tensor) -> None:
        """Draw the orders of these epochs."""
        at, epoch = lanes_and_epochs
        longest = self._roster.longest
        places = (epoch % self._slots)[:, None] * longest + torch.arange(longest, device=at.device)
        orders, rows = self._lanes.orders, self._lanes.rows
        orders[at[:, None], places] = self._roster.shuffled(rows[at], epoch)

    def _advance(self, live: Ints, step: Ints) -> None:
        """One step of these lanes, which are at these positions in their batch streams."""
        self._reserve()
        length = self._length(live, step)
        for common in np.unique(length).tolist():
            lanes = live[length == common]
            for first in range(0, len(lanes), self._widest):
                some = lanes[first : first + self._widest]
                self._launch(some, min(self._widest, _padded(len(some))), common)

    def _reserve(self) -> None:
        """Capture the launch that takes most memory before all others, which then find room in it.

        From narrow to wide, every graph would need memory of its own.
        """
        widest, nobody = self._widest, np.empty(0, dtype=np.int64)
        while self._captured is not None and (widest, self._batch) not in self._captured:
            self._launch(nobody, widest, self._batch)

    def _length(self, lanes: Ints, step: Ints) -> Ints:
        """The lengths that the mini-batches of these lanes are padded to.

        With batch statistics they are halves, quarters, ... of the longest, so that little is
        padded where clients have few samples; a single sample, which may have no variance, stays
        alone. Some are not padded: that would change the clips of quantised activations, any loss
        other than cross-entropy, and statistics that are not by our kernels.
        """
        if self.together:
            return np.full(len(lanes), self._batch)
        row = self._host_row[lanes]
        place = step % self._batches[row]
        length: Ints = np.minimum(self._size[row] - place * self._batch, self._batch)
        if not self._together.padded:
            return length
        padded = np.full(len(lanes), self._batch)
        while (shorter := padded // 2 >= length).any():
            padded[shorter] //= 2
        return padded

    def _launch(self, lanes: Ints, count: int, length: int) -> None:
        """One launch of these lanes, and of the extra one until there are `count`."""
        padded = np.concatenate([lanes, np.full(count - len(lanes), self.capacity)])
        step = partial(self._together, self._lanes, length=length)
        first = (count, length) == (self._widest, self._batch)
        warm = not first and not torch.backends.cudnn.benchmark  # which tries out every shape
        self._run((count, length), step, to_device(padded, self._lanes.models), warm=warm)

    def _run(
        self, shape: Hashable, launch: Callable[..., None], *given: Tensor, warm: bool = False
    ) -> None:
        """Call `launch`; on CUDA it is captured."""
        if self._captured is None:
            launch(*given)
        else:
            self._captured.run(shape, launch, *given, warm=warm)


def _launches(left: Ints) -> int:
    """Number of steps until lanes are refilled whose jobs have so many steps left.

    This is when the first job is finished; with many lanes a little later, since refilling takes
    the host as long as several launches. There are slots for no more than `_LAUNCHES`.
    """
    least = _LAUNCHES if len(left) >= _MANY else int(left.min())
    return min(least, int(left.max()), _LAUNCHES)


def _padded(lanes: int) -> int:
    """A number of lanes for which there is a graph: multiples of 4 up to 64, of 8 up to 128, ...

    >>> [_padded(lanes) for lanes in (1, 4, 29, 33, 64, 65, 300)]
    [4, 4, 32, 36, 64, 72, 320]
    """
    grain = max(_GRAIN, (1 << (lanes - 1).bit_length()) // 16)
    return grain * -(-lanes // grain)
