"""Lanes of a GPU: one stack of models, and every launch advances all of them by one SGD step.

A lane holds one job: its model is a row of the stack, its place in the batch stream a number on
the device. A launch picks every lane's mini-batch, takes all gradients at once through
`torch.func.vmap`, and steps. Data, batches and augmentation never leave the device, and on CUDA
the launch is a captured graph. A finished lane is refilled between two launches.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.func import functional_call, grad, vmap
from torch.nn import functional

from favano.data.transforms import ROOM, augment, to_float
from favano.training.capture import Captured
from favano.training.device_draws import device_uniform
from favano.training.flat import FlatModel
from favano.training.loop import LoopTrainer
from favano.training.precision import Precision, numbers
from favano.training.roster import make_roster
from favano.training.work import Work
from favano.types import Ints, Stack

_MOST_LANES = 1024
_SMALLER = 4  # a launch of few lanes is captured for a quarter of them, a sixteenth, ...
_FEWEST = 16
_PIECES = (32, 8)  # lanes of equally long batches that are launched together
_MANY = 128  # lanes at work from which on refilling waits
_LAUNCHES = 4  # launches between two refillings, then

Mask = npt.NDArray[np.bool_]


class LaneStack:
    """Trains up to `capacity` jobs side by side. Batches must go by epochs."""

    def __init__(
        self,
        model: FlatModel,
        trainers: Sequence[LoopTrainer],
        capacity: int,
        precision: Precision = "tf32",
    ) -> None:
        self.capacity = capacity
        task, device = trainers[0].task, model.vector.device
        self._model, self._task, self._rule = model, task, trainers[0].rule
        self._precision: Precision = precision
        self._batch = task.batches.batch_size
        self._roster = roster = make_roster([t.task.batches for t in trainers], device)
        self._padded = task.loss is functional.cross_entropy and not model.layout.buffers
        self._captured = Captured() if device.type == "cuda" else None
        # The lanes on the device, and one more in which nothing ever happens.
        rows = capacity + 1
        self._stack: Stack = model.vector.repeat(rows, 1)
        self._start = self._stack[:, : model.layout.parameters].clone()
        self._rates = model.vector.new_zeros(rows)
        self._row = torch.zeros(rows, device=device, dtype=torch.int64)  # of the roster
        self._step, self._left = torch.zeros_like(self._row), torch.zeros_like(self._row)
        # Samples in the order of an even epoch, then of an odd one.
        self._order = self._row.new_zeros((rows, 2 * roster.longest))
        # What the host knows of them.
        self._batches, self._size = roster.batches.cpu().numpy(), roster.size.cpu().numpy()
        self._busy: Mask = np.zeros(capacity, dtype=np.bool_)
        self._host_row, self._host_step, self._host_left = np.zeros((3, capacity), dtype=np.int64)
        self._drawn = np.full((capacity, 2), -1, dtype=np.int64)  # epochs whose orders are there

    @property
    def free(self) -> Ints:
        """Lanes without a job, the lowest first."""
        return np.flatnonzero(~self._busy)

    @property
    def busy(self) -> int:
        """Lanes at work."""
        return int(self._busy.sum())

    def load(self, lanes: Ints, models: Stack, task: Ints, work: Work) -> None:
        """Put jobs of at least one step into free lanes."""
        rows = self._roster.first[task] + work.client
        self._host_row[lanes], self._host_step[lanes] = rows, work.first_step
        self._host_left[lanes], self._busy[lanes] = work.steps, True
        self._drawn[lanes] = -1
        sent = self._to_device(np.stack([lanes, rows, work.first_step, work.steps]))
        at = sent[0]
        self._row[at], self._step[at], self._left[at] = sent[1], sent[2], sent[3]
        self._rates[at] = torch.from_numpy(work.rate).to(self._rates)
        self._stack[at] = models
        self._start[at] = models[:, : self._start.shape[1]]

    def advance(self) -> Ints:
        """Launch until lanes are done; they are free from now on, their models are still there."""
        launches = self._launches()
        self._draw_orders(np.flatnonzero(self._busy), launches)
        self._model.module.train()
        with numbers(self._precision):
            for _ in range(launches):
                live = self._host_left > 0
                if self._padded:
                    self._launch_padded(live)
                else:
                    self._launch_by_length(live)
                self._host_step[live] += 1
                self._host_left[live] -= 1
        done = np.flatnonzero(self._busy & (self._host_left == 0))
        self._busy[done] = False
        return done

    def models(self, lanes: Ints) -> Stack:
        """Copies of what is in these lanes."""
        return self._stack[self._to_device(lanes)]

    def try_launch(self) -> None:
        """One step of every lane, to see that it fits into memory."""
        self._model.module.train()
        count = self.capacity if self._padded else min(_PIECES[0], self.capacity)
        self._step_of(torch.arange(count, device=self._stack.device), self._batch)

    def _to_device(self, values: Ints) -> Tensor:
        return torch.from_numpy(values).to(self._stack.device)

    def _launches(self) -> int:
        """How many steps until lanes are refilled.

        Until the first job is done; with many lanes a few more, since refilling costs the host as
        much as several launches. No lane may go through more than two epochs meanwhile.
        """
        busy = self._busy
        least = int(self._host_left[busy].min())
        if busy.sum() >= _MANY:
            least = max(least, min(_LAUNCHES, int(self._host_left.max())))
        return min(least, int(self._batches[self._host_row[busy]].min()))

    def _draw_orders(self, lanes: Ints, launches: int) -> None:
        """Have the orders of all epochs that these lanes go through in the coming launches."""
        batches, steps = self._batches[self._host_row[lanes]], self._host_step[lanes]
        ahead = np.minimum(self._host_left[lanes], launches) - 1
        both = np.concatenate([lanes, lanes])
        epochs = np.concatenate([steps // batches, (steps + ahead) // batches])
        missing = self._drawn[both, epochs % 2] != epochs
        if not missing.any():
            return
        both, epochs = both[missing], epochs[missing]
        self._drawn[both, epochs % 2] = epochs
        at, epoch = self._to_device(np.stack([both, epochs]))
        longest = self._roster.longest
        places = (epoch % 2)[:, None] * longest + torch.arange(longest, device=at.device)
        self._order[at[:, None], places] = self._roster.shuffled(self._row[at], epoch)

    def _launch_padded(self, live: Mask) -> None:
        """One step of all lanes up to the last live one; short batches are filled up."""
        needed, size = int(np.flatnonzero(live)[-1]) + 1, self.capacity
        while size // _SMALLER >= max(needed, _FEWEST):
            size //= _SMALLER
        self._launch(slice(0, size), self._batch)

    def _launch_by_length(self, live: Mask) -> None:
        """One step of the live lanes, those with equally long batches together.

        Padding would enter batch statistics, and a loss of the user's knows nothing of it.
        """
        place = self._host_step % self._batches[self._host_row]
        length = np.minimum(self._size[self._host_row] - place * self._batch, self._batch)
        for common in np.unique(length[live]).tolist():
            lanes = np.flatnonzero(live & (length == common))
            while len(lanes):
                count = next((size for size in _PIECES if len(lanes) >= size), _PIECES[-1])
                count = min(count, self.capacity)
                piece = np.full(count, self.capacity)  # the lane where nothing happens
                piece[: len(lanes)] = lanes[:count]
                self._launch(piece, common)
                lanes = lanes[count:]

    def _launch(self, lanes: slice | Ints, length: int) -> None:
        """One launch, captured on CUDA."""
        if isinstance(lanes, slice):
            shape, launch, given = lanes.stop, partial(self._step_of, lanes, length), []
        else:
            shape, launch = -len(lanes), partial(self._step_of, length=length)
            given = [self._to_device(lanes)]
        if self._captured is None:
            launch(*given)
        else:
            self._captured.run((shape, length), launch, *given)

    def _step_of(self, lanes: Tensor | slice, length: int) -> None:
        """One SGD step of every lane that has one left; the others stay as they are."""
        roster, parameters = self._roster, self._model.layout.parameters
        rows, steps, left = self._row[lanes], self._step[lanes], self._left[lanes]
        epoch, batch = steps // roster.batches[rows], steps % roster.batches[rows]
        within = (batch * self._batch)[:, None] + torch.arange(length, device=rows.device)
        valid = within < roster.size[rows, None]
        place = (epoch % 2)[:, None] * roster.longest + within.clamp(max=roster.longest - 1)
        chosen = self._order[lanes].gather(1, place)
        features, labels = self._inputs(chosen, rows, steps), self._task.labels[chosen]
        weights, rest = self._stack[lanes, :parameters], self._stack[lanes, parameters:]
        gradient, moved = vmap(grad(self._loss, has_aux=True), randomness="different")(
            weights, rest, features, labels, valid
        )
        direction = self._rule.direction(gradient, weights, self._start[lanes])
        stepped = weights - self._rates[lanes, None] * direction
        active = (left > 0)[:, None]
        self._stack[lanes, :parameters] = torch.where(active, stepped, weights)
        if rest.shape[1]:
            self._stack[lanes, parameters:] = torch.where(active, moved, rest)
        self._step[lanes] = steps + (left > 0)
        self._left[lanes] = (left - 1).clamp(min=0)

    def _inputs(self, chosen: Tensor, rows: Tensor, steps: Tensor) -> Tensor:
        """Inputs of the chosen samples, (lanes, batch, ...)."""
        features, preprocessing = self._task.features[chosen], self._task.preprocessing
        if preprocessing is None:
            return features
        if preprocessing.augments:
            numbers = torch.arange(3 * chosen.shape[1], device=chosen.device)
            index = steps[:, None] * ROOM + numbers
            draws = device_uniform(self._roster.crops[rows, None], index)
            features = augment(features, preprocessing, draws.float().view(*chosen.shape, 3))
        return to_float(features, preprocessing, self._stack.dtype)

    def _loss(
        self, weights: Tensor, rest: Tensor, features: Tensor, labels: Tensor, valid: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Mean loss of one lane's batch, and its buffers after the forward pass."""
        parameters, buffers = self._model.named(weights, rest)
        buffers = {name: value.clone() for name, value in buffers.items()}
        output = functional_call(self._model.module, (parameters, buffers), (features,))
        if self._padded:
            losses = functional.cross_entropy(output, labels, reduction="none")
            loss = (losses * valid).sum() / valid.sum()
        else:
            loss = self._task.loss(output, labels)
        moved = [buffer.flatten() for buffer in buffers.values()]
        return loss, torch.cat(moved) if moved else rest


def lane_stack(
    model: FlatModel, trainers: Sequence[LoopTrainer], precision: Precision = "tf32"
) -> LaneStack:
    """As many lanes as memory and kernels allow: halved until one launch goes through."""
    capacity = _MOST_LANES
    while True:
        try:
            lanes = LaneStack(model, trainers, capacity, precision)
            lanes.try_launch()
            return lanes
        except RuntimeError:  # out of memory, or more numbers than a kernel can count
            if capacity == 1:
                raise
            capacity //= 2
        torch.cuda.empty_cache()
