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
from favano.training.lanes import Done, Job, finite_rows
from favano.training.loop import LoopTrainer
from favano.training.rule import direction
from favano.types import Stack, Vector

Mask = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
Indices = np.ndarray[tuple[int, ...], np.dtype[np.int64]]

_MOST_LANES = 1024
_MANY = 128  # lanes at work from which on refilling waits
_LAUNCHES = 4  # launches between two refillings, then
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
        self._model, self._task = model, task
        self._rules = [trainer.rule for trainer in trainers]
        self._batch = task.batches.batch_size
        self._first_row = np.cumsum([0, *(len(t.task.batches.parts) for t in trainers)])
        self._clients = _gather_clients(trainers, device)
        longest = self._clients.samples.shape[1]
        self._stack: Stack = model.vector.repeat(capacity, 1)
        self._start = self._stack[:, : model.layout.parameters].clone()
        self._rates = model.vector.new_zeros(capacity)
        corrected = any(rule.corrected for rule in self._rules)
        self._drift = torch.zeros_like(self._start) if corrected else None
        pulled = any(rule.proximal for rule in self._rules)
        self._pull = self._rates[:, None].clone() if pulled else None
        # Of each lane: whose job it is, the place in that client's batch stream, steps left, and
        # the orders of an even and of an odd epoch.
        self._rows = torch.zeros(capacity, device=device, dtype=torch.int64)
        self._steps, self._left = torch.zeros_like(self._rows), torch.zeros_like(self._rows)
        self._orders = torch.zeros((capacity, 2 * longest), device=device, dtype=torch.int64)
        self._longest = longest
        self._padded = task.loss is functional.cross_entropy and not model.layout.buffers
        model.module.train()
        self._launch: Callable[[], None] = self._advance
        if self._padded and device.type == "cuda":
            self._launch = _captured(self._advance)
        self._host_batches = self._clients.batches.cpu().numpy()
        self._host_size = self._clients.size.cpu().numpy()
        self._host_rows = np.zeros(capacity, dtype=np.int64)
        self._host_steps = np.zeros(capacity, dtype=np.int64)
        self._host_left = np.zeros(capacity, dtype=np.int64)
        self._drawn = np.full((capacity, 2), -1, dtype=np.int64)  # epochs whose orders are there
        self._tickets = np.full(capacity, -1, dtype=np.int64)
        self._free = deque(range(capacity))
        self._new: list[tuple[int, Vector, Job, Vector | None]] = []

    def submit(self, ticket: int, start: Vector, job: Job, drift: Vector | None = None) -> None:
        """Put a job into a free lane."""
        lane = self._free.popleft()
        self._tickets[lane] = ticket
        self._host_rows[lane] = self._first_row[job.task] + job.client
        self._host_steps[lane], self._host_left[lane] = job.first_step, job.steps
        self._new.append((lane, start, job, drift))

    def collect(self) -> list[Done]:
        """Launch until a job is done."""
        self._model.module.train()
        self._fill()
        busy = self._tickets >= 0
        launches = self._launches(busy)
        self._draw_orders(np.flatnonzero(busy), launches)
        for _ in range(launches):
            live = self._host_left > 0
            if self._padded:
                self._launch()
            else:
                self._launch_by_length(live)
            self._host_steps[live] += 1
            self._host_left[live] -= 1
        done = np.flatnonzero(busy & (self._host_left == 0))
        ends = self._stack[torch.from_numpy(done).to(self._stack.device)]
        tickets = self._tickets[done].tolist()
        self._tickets[done] = -1
        self._free.extend(done.tolist())
        return [Done(*one) for one in zip(tickets, ends, finite_rows(ends), strict=True)]

    def _launches(self, busy: Mask) -> int:
        """How many steps until lanes are refilled.

        Until the first job is done; with many lanes a few more, since refilling costs the host as
        much as several launches. No lane may go through more than two epochs meanwhile.
        """
        least = int(self._host_left[busy].min())
        if busy.sum() >= _MANY:
            least = max(least, min(_LAUNCHES, int(self._host_left.max())))
        return min(least, int(self._host_batches[self._host_rows[busy]].min()))

    def try_launch(self) -> None:
        """One step of every lane, to see that it fits into memory."""
        self._advance()

    def _fill(self) -> None:
        """Write the new jobs into their lanes, all at once."""
        if not self._new:
            return
        lanes = np.array([lane for lane, *_ in self._new])
        at = torch.from_numpy(lanes).to(self._stack.device)
        self._stack[at] = torch.stack([start for _, start, _, _ in self._new])
        self._start[at] = self._stack[at, : self._start.shape[1]]
        rates = torch.tensor([job.rate for _, _, job, _ in self._new], dtype=self._rates.dtype)
        self._rates[at] = rates.to(self._rates.device)
        if self._pull is not None:
            pull = [[self._rules[job.task].proximal] for _, _, job, _ in self._new]
            self._pull[at] = torch.tensor(pull, dtype=self._pull.dtype).to(self._pull.device)
        if self._drift is not None:
            none = torch.zeros_like(self._drift[0])
            drifts = [none if drift is None else drift for _, _, _, drift in self._new]
            self._drift[at] = torch.stack(drifts)
        self._rows[at] = torch.from_numpy(self._host_rows[lanes]).to(self._rows.device)
        self._steps[at] = torch.from_numpy(self._host_steps[lanes]).to(self._steps.device)
        self._left[at] = torch.from_numpy(self._host_left[lanes]).to(self._left.device)
        self._drawn[lanes] = -1
        self._new = []

    def _draw_orders(self, lanes: Indices, launches: int) -> None:
        """Have the orders of all epochs that these lanes go through in the coming launches."""
        batches, steps = self._host_batches[self._host_rows[lanes]], self._host_steps[lanes]
        ahead = np.minimum(self._host_left[lanes], launches) - 1
        both = np.concatenate([lanes, lanes])
        epochs = np.concatenate([steps // batches, (steps + ahead) // batches])
        missing = self._drawn[both, epochs % 2] != epochs
        if not missing.any():
            return
        both, epochs = both[missing], epochs[missing]
        self._drawn[both, epochs % 2] = epochs
        at, epoch = (torch.from_numpy(a).to(self._stack.device) for a in (both, epochs))
        rows, clients = self._rows[at], self._clients
        drawn = device_permutations(clients.orders[rows], epoch, clients.size[rows], self._longest)
        places = (epoch % 2)[:, None] * self._longest + torch.arange(
            self._longest, device=at.device
        )
        self._orders[at[:, None], places] = clients.samples[rows].gather(1, drawn)

    def _launch_by_length(self, live: Mask) -> None:
        """One step of the live lanes, those with equally long batches together.

        Padding would enter batch statistics, and a loss of the user's knows nothing of it.
        """
        place = self._host_steps % self._host_batches[self._host_rows]
        left = self._host_size[self._host_rows] - place * self._batch
        lengths = np.minimum(left, self._batch)
        for length in np.unique(lengths[live]).tolist():
            lanes = np.flatnonzero(live & (lengths == length))
            self._advance(torch.from_numpy(lanes).to(self._stack.device), length)

    def _advance(self, lanes: Tensor | slice = slice(None), length: int | None = None) -> None:
        """One SGD step of every lane that has one left; the others stay as they are."""
        clients, parameters = self._clients, self._model.layout.parameters
        rows, steps, left = self._rows[lanes], self._steps[lanes], self._left[lanes]
        epoch, batch = steps // clients.batches[rows], steps % clients.batches[rows]
        numbers = torch.arange(length or self._batch, device=rows.device)
        within = (batch * self._batch)[:, None] + numbers
        valid = within < clients.size[rows, None]
        place = (epoch % 2)[:, None] * self._longest + within.clamp(max=self._longest - 1)
        chosen = self._orders[lanes].gather(1, place)
        features = self._inputs(chosen, rows, steps)
        labels = self._task.labels[chosen]
        weights, rest = self._stack[lanes, :parameters], self._stack[lanes, parameters:]
        gradient, moved = vmap(grad(self._loss, has_aux=True), randomness="different")(
            weights, rest, features, labels, valid
        )
        pull = None if self._pull is None else self._pull[lanes]
        drift = None if self._drift is None else self._drift[lanes]
        moves = direction(gradient, weights, self._start[lanes], pull=pull, drift=drift)
        stepped = weights - self._rates[lanes, None] * moves
        active = (left > 0)[:, None]
        self._stack[lanes, :parameters] = torch.where(active, stepped, weights)
        if rest.shape[1]:
            self._stack[lanes, parameters:] = torch.where(active, moved, rest)
        self._steps[lanes] = steps + (left > 0)
        self._left[lanes] = (left - 1).clamp(min=0)

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
    """As many lanes as memory and kernels allow: halved until one launch goes through."""
    capacity = _MOST_LANES
    while True:
        try:
            lanes = StackedLanes(model, trainers, capacity)
            lanes.try_launch()
            return lanes
        except RuntimeError:  # out of memory, or more numbers than a kernel can count
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
