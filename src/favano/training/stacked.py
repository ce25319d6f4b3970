"""Lanes of a GPU: one stack of models, and every launch advances all of them by one SGD step.

A lane holds one job: its model is a row of the stack, its place in the batch stream a number on
the device. A launch picks every lane's mini-batch, takes all gradients at once through
`torch.func.vmap`, and steps. Data, batches and augmentation never leave the device, and on CUDA
the launch is one captured graph. A finished lane is refilled between two launches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call, grad, vmap
from torch.nn import functional

from favano.data.transforms import ROOM, augment, to_float
from favano.rng import Stream, origin
from favano.training.device_draws import device_permutations, device_uniform, on_device
from favano.training.flat import FlatModel
from favano.training.lanes import Job
from favano.training.loop import LoopTrainer
from favano.types import Stack, Vector

_MOST_LANES = 1024
_WARM_UP = 3  # runs of a launch before it is captured


@dataclass(frozen=True)
class _Clients:
    """All clients of all tasks, one row each: their samples and the origins of their draws."""

    samples: Tensor  # (rows, longest) sample numbers, padded
    size: Tensor  # (rows,)
    batches: Tensor  # (rows,) batches an epoch
    orders: Tensor  # (rows,) origins of the epochs' orders
    crops: Tensor  # (rows,) origins of the augmentation


class StackedLanes:
    """Trains up to `capacity` jobs side by side. Batches must go by epochs."""

    def __init__(self, model: FlatModel, trainers: Sequence[LoopTrainer], capacity: int) -> None:
        self.capacity = capacity
        task, device = trainers[0].task, model.vector.device
        self._model, self._task, self._rule = model, task, trainers[0].rule
        self._batch = task.batches.batch_size
        self._first_row = np.cumsum([0, *(len(t.task.batches.parts) for t in trainers)])
        self._clients = _gather_clients(trainers, device)
        longest = self._clients.samples.shape[1]
        self._stack: Stack = model.vector.repeat(capacity, 1)
        self._start = self._stack[:, : model.layout.parameters].clone()
        self._rates = model.vector.new_zeros(capacity)
        self._rows = torch.zeros(
            capacity, device=device, dtype=torch.int64
        )  # which client, of which task
        self._steps = torch.zeros(
            capacity, device=device, dtype=torch.int64
        )  # place in its batch stream
        self._orders = torch.zeros(
            (capacity, longest), device=device, dtype=torch.int64
        )  # of the present epoch
        self._padded = task.loss is functional.cross_entropy and not model.layout.buffers
        model.module.train()
        self._launch: Callable[[], None] = self._advance
        if self._padded and device.type == "cuda":
            self._launch = _captured(self._advance)
        self._host_batches = self._clients.batches.cpu().numpy()
        self._host_size = self._clients.size.cpu().numpy()
        self._host_rows = np.zeros(capacity, dtype=np.int64)
        self._host_steps = np.zeros(capacity, dtype=np.int64)
        self._left = np.zeros(capacity, dtype=np.int64)
        self._tickets = np.full(capacity, -1, dtype=np.int64)
        self._free = deque(range(capacity))
        self._new: list[tuple[int, Vector, float]] = []

    def submit(self, ticket: int, start: Vector, job: Job) -> None:
        """Put a job into a free lane."""
        lane = self._free.popleft()
        self._tickets[lane] = ticket
        self._host_rows[lane] = self._first_row[job.task] + job.client
        self._host_steps[lane], self._left[lane] = job.first_step, job.steps
        self._new.append((lane, start, job.rate))

    def collect(self) -> list[tuple[int, Vector]]:
        """Launch until a job is done."""
        self._model.module.train()
        self._fill()
        live = self._left > 0
        for _ in range(int(self._left[live].min())):
            self._turn_epochs(np.flatnonzero(live & (self._places() == 0)))
            if self._padded:
                self._launch()
            else:
                self._launch_by_length(live)
            self._host_steps[live] += 1
            self._left[live] -= 1
        done = np.flatnonzero(live & (self._left == 0))
        ends = self._stack[torch.from_numpy(done).to(self._stack.device)]
        tickets = self._tickets[done].tolist()
        self._tickets[done] = -1
        self._free.extend(done.tolist())
        return list(zip(tickets, ends, strict=True))

    def try_launch(self) -> None:
        """One step of every lane, to see that it fits into memory."""
        self._advance()

    def _fill(self) -> None:
        """Write the new jobs into their lanes, all at once."""
        if not self._new:
            return
        lanes = np.array([lane for lane, _, _ in self._new])
        at = torch.from_numpy(lanes).to(self._stack.device)
        self._stack[at] = torch.stack([start for _, start, _ in self._new])
        self._start[at] = self._stack[at, : self._start.shape[1]]
        rates = torch.tensor([rate for _, _, rate in self._new], dtype=self._rates.dtype)
        self._rates[at] = rates.to(self._rates.device)
        self._rows[at] = torch.from_numpy(self._host_rows[lanes]).to(self._rows.device)
        self._steps[at] = torch.from_numpy(self._host_steps[lanes]).to(self._steps.device)
        self._new = []
        self._turn_epochs(lanes[self._places()[lanes] != 0])

    def _places(self) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        """Where each lane is in its epoch, in batches."""
        return np.asarray(self._host_steps % self._host_batches[self._host_rows])

    def _turn_epochs(self, lanes: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> None:
        """Draw the order of the present epoch for these lanes."""
        if not len(lanes):
            return
        at = torch.from_numpy(lanes).to(self._stack.device)
        rows, clients = self._rows[at], self._clients
        epoch = self._steps[at] // clients.batches[rows]
        longest = clients.samples.shape[1]
        drawn = device_permutations(clients.orders[rows], epoch, clients.size[rows], longest)
        self._orders[at] = clients.samples[rows].gather(1, drawn)

    def _launch_by_length(self, live: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> None:
        """One step of the live lanes, those with equally long batches together.

        Padding would enter batch statistics, and a loss of the user's knows nothing of it.
        """
        lengths = np.minimum(
            self._host_size[self._host_rows] - self._places() * self._batch, self._batch
        )
        for length in np.unique(lengths[live]).tolist():
            lanes = np.flatnonzero(live & (lengths == length))
            self._advance(torch.from_numpy(lanes).to(self._stack.device), length)

    def _advance(self, lanes: Tensor | slice = slice(None), length: int | None = None) -> None:
        """One SGD step; a lane without a job steps too where all do, and nobody looks."""
        clients, parameters = self._clients, self._model.layout.parameters
        rows, steps = self._rows[lanes], self._steps[lanes]
        place = (steps % clients.batches[rows]) * self._batch
        within = place[:, None] + torch.arange(length or self._batch, device=place.device)
        valid = within < clients.size[rows, None]
        chosen = self._orders[lanes].gather(1, within.clamp(max=self._orders.shape[1] - 1))
        features = self._inputs(chosen, rows, steps)
        labels = self._task.labels[chosen]
        weights, rest = self._stack[lanes, :parameters], self._stack[lanes, parameters:]
        gradient, moved = vmap(grad(self._loss, has_aux=True), randomness="different")(
            weights, rest, features, labels, valid
        )
        direction = self._rule.direction(gradient, weights, self._start[lanes])
        self._stack[lanes, :parameters] = weights - self._rates[lanes, None] * direction
        self._stack[lanes, parameters:] = moved
        self._steps[lanes] += 1

    def _inputs(self, chosen: Tensor, rows: Tensor, steps: Tensor) -> Tensor:
        """Inputs of the chosen samples, (lanes, batch, ...)."""
        features, preprocessing = self._task.features[chosen], self._task.preprocessing
        if preprocessing is None:
            return features
        if preprocessing.augments:
            numbers = torch.arange(3 * chosen.shape[1], device=chosen.device)
            index = steps[:, None] * ROOM + numbers
            draws = device_uniform(self._clients.crops[rows, None], index)
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


def stacked_lanes(model: FlatModel, trainers: Sequence[LoopTrainer]) -> StackedLanes:
    """As many lanes as memory allows: halved until one launch fits."""
    capacity = _MOST_LANES
    while True:
        try:
            lanes = StackedLanes(model, trainers, capacity)
            lanes.try_launch()
            return lanes
        except torch.cuda.OutOfMemoryError:
            if capacity == 1:
                raise
            capacity //= 2
        torch.cuda.empty_cache()


def _gather_clients(trainers: Sequence[LoopTrainer], device: torch.device) -> _Clients:
    streams = [trainer.task.batches for trainer in trainers]
    parts = [part for stream in streams for part in stream.parts]
    size = np.array([len(part) for part in parts])
    samples = np.zeros((len(parts), size.max()), dtype=np.int64)
    for row, part in enumerate(parts):
        samples[row, : len(part)] = part
    origins = {
        kind: np.concatenate(
            [
                origin(s.seed, kind, np.array([s.stream(c) for c in range(len(s.parts))]))
                for s in streams
            ]
        )
        for kind in (Stream.BATCHES, Stream.AUGMENTATION)
    }
    return _Clients(
        samples=torch.from_numpy(samples).to(device),
        size=torch.from_numpy(size).to(device),
        batches=torch.from_numpy(-(-size // streams[0].batch_size)).to(device),
        orders=on_device(origins[Stream.BATCHES], device),
        crops=on_device(origins[Stream.AUGMENTATION], device),
    )


def _captured(launch: Callable[[], None]) -> Callable[[], None]:
    """The launch as one CUDA graph. It is run a few times first, on whatever is in the lanes."""
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(_WARM_UP):
            launch()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch()
    return graph.replay
