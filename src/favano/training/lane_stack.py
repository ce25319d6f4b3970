"""Lanes on a GPU: a stack of models, which a launch advances by one SGD step.

A lane trains one job: its model is a row of the stack, its position in the batch stream a number on
the device. A launch gathers the mini-batches of all lanes, computes all gradients at once by
`torch.func.vmap`, and makes a step. Data, batches and augmentation stay on the device, and on CUDA
a launch is a captured graph. Finished lanes are refilled between two launches.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.func import functional_call, vmap
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from favano.quantisation import draws_of
from favano.training.cuda_graphs import GraphCache
from favano.training.device_draws import device_bits, to_device
from favano.training.dropout import drawing
from favano.training.flat import FlatModel
from favano.training.lane_inputs import LaneInputs
from favano.training.lane_network import LaneState, lane_network, whole_steps
from favano.training.lanes import Work
from favano.training.local_rule import direction
from favano.training.loop import LoopTrainer
from favano.training.precision import HalfWeights, product_precision
from favano.training.roster import Roster, make_roster
from favano.training.rule_table import RuleTable
from favano.types import Ints, Precision, Stack

Mask = npt.NDArray[np.bool_]

_ALIGNED = 16  # numbers
_FEWEST = 16  # lanes in a launch, or orders that are drawn at once
_PIECES = (64, 32, 16, 8)  # lanes with equally long batches that are launched together
_FILLED = 0.75  # least share of busy lanes in such a piece, except in the smallest
_MANY = 128  # busy lanes from which on lanes are refilled less often
_LAUNCHES = 5  # launches between two refillings in that case; jobs often have 5, 10 or 20 steps


class LaunchResult:
    """Lanes that a launch finished, and their end models, perhaps still being computed."""

    def __init__(self, lanes: Ints, ends: Stack) -> None:
        self.lanes, self.ends = lanes, ends
        finite = ends.isfinite().all(dim=1)
        self._finite = finite.to("cpu", non_blocking=True)
        self._arrived = torch.cuda.Event() if ends.is_cuda else None  # type: ignore[no-untyped-call]
        if self._arrived is not None:
            self._arrived.record()

    def finite(self) -> Mask:
        """Which end models have neither NaN nor infinity; waits for the device."""
        if self._arrived is not None:
            self._arrived.synchronize()
            self.ends.record_stream(torch.cuda.current_stream())
        return np.asarray(self._finite.numpy(), dtype=np.bool_)


class LaneStack:
    """Trains up to `capacity` jobs at the same time. The order of batches must be `epoch`."""

    widest = max(_PIECES)  # the most lanes per launch

    def __init__(
        self,
        model: FlatModel,
        trainers: Sequence[LoopTrainer],
        capacity: int,
        precision: Precision = "tf32",
        roster: Roster | None = None,
        widest: int = widest,  # fewer if memory is short
    ) -> None:
        self.capacity = capacity
        task, device = trainers[0].task, model.vector.device
        self._model, self._task = model, task
        rules = [trainer.rule for trainer in trainers]
        self._proximal = np.array([rule.proximal for rule in rules])  # of each task
        self._rules = RuleTable(rules)
        self._precision: Precision = precision
        self._batch = task.batches.batch_size
        self._roster = roster = roster or make_roster([t.task.batches for t in trainers], device)
        whole = model.draws is None and not model.layout.buffers  # short batches may be padded
        classes = task.loss is functional.cross_entropy and task.labels.ndim == 1
        self._padded = classes and whole
        # Numbers of lanes that are launched together; empty if it is always all of them.
        pieces = tuple(min(size, widest, capacity) for size in _PIECES)
        self.pieces = () if self._padded else pieces
        self._module, self._fused = lane_network(model)
        self._draws = draws_of(self._module) or model.draws
        self._halves = HalfWeights(self._module) if precision == "bf16" else None
        self._inputs = LaneInputs(task, roster, model.vector, half=precision == "bf16")
        self._captured = GraphCache() if device.type == "cuda" else None
        # The lanes on the device, and one more to pad launches with.
        rows = capacity + 1
        self._memory = self._rules.vectors * model.layout.parameters
        used = model.layout.size + self._memory
        # Products and kernels are faster if every lane begins at a multiple of some bytes.
        more = self._memory + -used % _ALIGNED
        self._stack: Stack = functional.pad(model.vector, (0, more)).repeat(rows, 1)
        # End models are without the vectors that begin anew in each job.
        self._width = model.layout.size + self._rules.kept * model.layout.parameters
        self._rates = model.vector.new_zeros(rows)
        weights = self._stack[:, : model.layout.parameters]
        corrected = any(rule.corrected for rule in rules)
        self._drift = torch.zeros_like(weights) if corrected else None
        self._start = torch.zeros_like(weights) if self._proximal.any() else None
        self._pull = torch.zeros_like(self._rates)
        self._places = torch.zeros((5, rows), device=device, dtype=torch.int64)
        # Row of the roster, position in the batch stream, the position at which the job ends, the
        # number of the rule, and the position at which the optimiser began with zeros.
        self._row, self._step, self._end, self._rule, self._since = self._places
        numbers = len(self._rules.numbers), rows  # of the optimisers
        self._numbers = torch.zeros(numbers, device=device, dtype=torch.float64)
        # The same on the host.
        self._batches, self._size = roster.batches.cpu().numpy(), roster.size.cpu().numpy()
        on_host = np.zeros((4, capacity), dtype=np.int64)
        self._host_row, self._host_step, self._host_left, self._host_rule = on_host
        # Samples in the orders of a few epochs; epoch e is in slot e modulo the number of slots.
        self._slots = 1 + -(-_LAUNCHES // int(self._batches.min()))
        self._order = self._row.new_zeros((rows, self._slots * roster.longest))
        self._drawn = np.full((capacity, self._slots), -1, dtype=np.int64)  # epochs in the slots
        self._whole = None  # a kernel for all of several steps, of lanes with rule 0
        plain = not self._rules.number.all()
        if self._padded and plain and self._inputs.read_as_they_are:
            table = self._inputs.table
            self._whole = whole_steps(model, task, table, roster, self._slots, precision)

    @property
    def device(self) -> torch.device:
        """Where the lanes are."""
        return self._stack.device

    @property
    def _state(self) -> LaneState:
        return LaneState(
            self._stack, self._rates, self._row, self._step, self._end, self._rule, self._order,
            self._pull, self._start, self._drift,
        )  # fmt: skip

    @property
    def lane_bytes(self) -> int:
        """Bytes that one lane takes all the time."""
        tensors = (self._stack, self._start, self._order, self._drift)
        return sum(one[0].numel() * one.element_size() for one in tensors if one is not None)

    @property
    def free(self) -> Ints:
        """Lanes without a job, the lowest first."""
        return np.flatnonzero(self._host_left == 0)

    def load(self, lanes: Ints, models: Stack, task: Ints, work: Work) -> None:
        """Put jobs into free lanes; each must have at least one step."""
        rows = self._roster.first[task] + work.client
        self._host_row[lanes], self._host_step[lanes] = rows, work.first_step
        self._host_left[lanes], self._host_rule[lanes] = work.steps, self._rules.number[task]
        self._drawn[lanes] = -1
        since = work.first_step - (0 if work.steps_before is None else work.steps_before)
        real = np.stack([work.rate, self._proximal[task], *self._rules.numbers[:, task]])
        last = work.first_step + work.steps
        whole = np.stack([lanes, rows, work.first_step, last, self._rules.number[task], since])
        uploaded = to_device(np.concatenate([whole, real.view(np.int64)]), self._stack)  # at once
        at, numbers = uploaded[0], uploaded[6:].view(torch.float64)
        rate, pull = numbers[:2].to(self._rates.dtype)
        self._places[:, at] = uploaded[1:6]
        self._rates[at] = rate
        if self._rules:
            self._numbers[:, at] = numbers[2:]
        if self._start is not None:
            self._pull[at] = pull
            self._start[at] = models[:, : self._start.shape[1]]
        if self._drift is not None:
            self._drift[at] = 0.0 if work.drift is None else work.drift
        self._stack[at] = functional.pad(models, (0, self._stack.shape[1] - models.shape[1]))

    def launch(self) -> LaunchResult:
        """Advance all lanes by some steps, without waiting for the device.

        Lanes that finish their job are free afterwards. Their models are copied right after the
        last step, so further steps in them do no harm; a kernel of whole steps makes none.
        """
        launches, live = self._launches(), np.flatnonzero(self._host_left)
        self._draw_orders(live, launches)
        left = self._host_left[live]
        order = np.argsort(left, kind="stable")
        bounds = np.searchsorted(left[order], np.arange(1, launches + 2)).tolist()
        done = live[order[: bounds[-1]]]  # in the order in which they finish
        at = to_device(done, self._stack)
        models, ends = self._stack[:, : self._width], self._stack.new_empty(len(done), self._width)
        others = live  # lanes that make their steps together
        if self._whole is not None:
            self._run(("steps", launches), partial(self._whole, self._state, launches))
            others = live[self._host_rule[live] > 0]
            bounds = bounds if len(others) else [0, len(done)]
        with product_precision(self._precision):
            for number, (first, last) in enumerate(pairwise(bounds)):
                at_work = others[self._host_left[others] > number]
                if len(at_work):
                    self._advance(at_work, number)
                if first < last:
                    torch.index_select(models, 0, at[first:last], out=ends[first:last])
        self._host_step[live] += np.minimum(left, launches)
        self._host_left[live] = np.maximum(left - launches, 0)
        return LaunchResult(done, ends)

    def try_launch(self) -> None:
        """One step of every lane, to check that memory is sufficient."""
        if self._whole is not None:
            self._whole(self._state, 1)
            if not self._rules:
                return
        count = self.pieces[0] if self.pieces else self.capacity
        self._step_of(torch.arange(count, device=self._stack.device), self._batch)

    def _launches(self) -> int:
        """Number of steps until lanes are refilled.

        This is when the first job is finished; with many lanes a little later, since refilling
        takes the host as long as several launches. There are slots for no more than `_LAUNCHES`.
        """
        left = self._host_left[self._host_left > 0]
        least = _LAUNCHES if len(left) >= _MANY else int(left.min())
        return min(least, int(left.max()), _LAUNCHES)

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
        self._run(("orders", size), self._shuffle, to_device(padded, self._stack))

    def _shuffle(self, lanes_and_epochs: Tensor) -> None:
        """Draw the orders of these epochs."""
        at, epoch = lanes_and_epochs
        longest = self._roster.longest
        places = (epoch % self._slots)[:, None] * longest + torch.arange(longest, device=at.device)
        self._order[at[:, None], places] = self._roster.shuffled(self._row[at], epoch)

    def _advance(self, live: Ints, done: int) -> None:
        """One step of these lanes, which have made so many steps since they were refilled."""
        if self._padded:
            self._launch_padded(live)
        else:
            self._launch_by_length(live, self._host_step[live] + done)

    def _launch_padded(self, live: Ints) -> None:
        """One step of the busy lanes; short batches are padded, and so is the number of lanes."""
        count = min(self.capacity, max(_FEWEST, 1 << (len(live) - 1).bit_length()))
        # Without copies of the models, if all lanes make their steps together.
        if live[-1] < count and self._whole is None:
            self._launch(slice(0, count), self._batch)
        else:
            self._launch(self._piece(live, count), self._batch)

    def _launch_by_length(self, live: Ints, step: Ints) -> None:
        """One step of the busy lanes, those with equally long batches together.

        Padding would change batch statistics, the clips of quantised activations, and any loss
        other than cross-entropy.
        """
        row, pieces = self._host_row[live], self.pieces
        place = step % self._batches[row]
        length = np.minimum(self._size[row] - place * self._batch, self._batch)
        for common in np.unique(length).tolist():
            lanes = live[length == common]
            while len(lanes):
                filled = (size for size in pieces if len(lanes) >= _FILLED * size)
                count = next(filled, pieces[-1])
                self._launch(self._piece(lanes[:count], count), common)
                lanes = lanes[count:]

    def _piece(self, lanes: Ints, count: int) -> Ints:
        """These lanes, padded with the extra one."""
        return np.concatenate([lanes, np.full(count - len(lanes), self.capacity)])

    def _launch(self, lanes: slice | Ints, length: int) -> None:
        """One launch."""
        if isinstance(lanes, slice):
            self._run((lanes.stop, length), partial(self._step_of, lanes, length))
        else:
            launch = partial(self._step_of, length=length)
            self._run((-len(lanes), length), launch, to_device(lanes, self._stack))

    def _run(self, shape: Hashable, launch: Callable[..., None], *given: Tensor) -> None:
        """Call `launch`; on CUDA it is captured."""
        if self._captured is None:
            launch(*given)
        else:
            self._captured.run(shape, launch, *given)

    def _step_of(self, lanes: Tensor | slice, length: int) -> None:
        """One SGD step of these lanes."""
        roster, parameters = self._roster, self._model.layout.parameters
        rows, steps = self._row[lanes], self._step[lanes]
        epoch, batch = steps // roster.batches[rows], steps % roster.batches[rows]
        within = (batch * self._batch)[:, None] + torch.arange(length, device=rows.device)
        valid = within < roster.size[rows, None]
        place = (epoch % self._slots)[:, None] * roster.longest + within.clamp(
            max=roster.longest - 1
        )
        chosen = self._order[lanes].gather(1, place)
        features, labels = self._inputs.of(chosen, rows, steps), self._task.labels[chosen]
        models = self._stack[lanes]  # of a slice a view, of a tensor a copy
        size = self._model.layout.size
        weights, buffers = self._model.named(models[:, :parameters], models[:, parameters:size])
        gradients, moved = self._gradients(
            weights, buffers, features, labels, valid, self._keys(rows, steps)
        )
        if self._rules:
            self._descend_refined(models, list(gradients.values()), lanes)
        else:
            self._descend(weights, gradients, lanes)
        for name, buffer in buffers.items():
            buffer.copy_(moved[name])
        if not isinstance(lanes, slice):
            self._stack.index_copy_(0, lanes, models)  # faster than an assignment
        self._step[lanes] = steps + 1

    def _descend(
        self, weights: dict[str, Tensor], gradients: dict[str, Tensor], lanes: Tensor | slice
    ) -> None:
        """A step along the gradients, with their corrections."""
        drift, start = self._of(self._drift, lanes), self._of(self._start, lanes)
        rates, pulls = self._rates[lanes], self._pull[lanes]
        for name, weight in weights.items():
            if drift is None and start is None and self._fused is not None:
                self._fused(weight, gradients[name], rates)
                continue
            column = (-1, *[1] * (weight.ndim - 1))
            pull = None if start is None else pulls.view(column)
            moves = direction(
                gradients[name], weight, weight if start is None else start[name],
                pull=pull, drift=None if drift is None else drift[name],
            )  # fmt: skip
            weight.addcmul_(moves, rates.view(column), value=-1)

    def _descend_refined(
        self, models: Stack, gradients: Sequence[Tensor], lanes: Tensor | slice
    ) -> None:
        """A step by the rules of clients with a memory or an optimiser."""
        layout = self._model.layout
        weights = models[:, : layout.parameters]
        memory = models[:, layout.size : layout.size + self._memory]
        start = weights if self._start is None else self._start[lanes]
        corrected = direction(
            torch.cat([one.flatten(1) for one in gradients], dim=1), weights, start,
            pull=None if self._start is None else self._pull[lanes, None],
            drift=None if self._drift is None else self._drift[lanes],
        )  # fmt: skip
        moves = self._rules.refined(
            corrected,
            self._model.decaying(weights),
            memory.view(len(models), -1, layout.parameters).unbind(1),
            self._rule[lanes, None],
            (self._step - self._since)[lanes, None] + 1,
            self._numbers[:, lanes, None],
        )
        weights.addcmul_(moves, self._rates[lanes, None], value=-1)

    def _gradients(
        self, weights: dict[str, Tensor], buffers: dict[str, Tensor], *given: Tensor
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Gradients of all lanes, and their buffers after the forward pass.

        Lanes do not share weights, so their gradients are those of the sum of their losses.
        `torch.func.grad` would load PyTorch's compiler, which takes seconds. Attention is made of
        plain products, since the gradient of PyTorch's fused one fails for many lanes on CUDA.
        """
        trained = self._model.trained
        free = {name: one.detach().requires_grad_(name in trained) for name, one in weights.items()}
        with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
            losses, moved = vmap(self._loss, randomness="different")(free, buffers, *given)
            wanted = [free[name] for name in trained]
            found = torch.autograd.grad(
                losses.sum(), wanted, allow_unused=True, materialize_grads=True
            )
        known = dict(zip(trained, found, strict=True))
        gradients = {
            n: known[n] if n in known else torch.zeros_like(one) for n, one in free.items()
        }
        return gradients, {name: one.detach() for name, one in moved.items()}

    def _of(self, stack: Stack | None, lanes: Tensor | slice) -> dict[str, Tensor] | None:
        """Rows of a stack of weights by name."""
        return None if stack is None else self._model.named_weights(stack[lanes])

    def _keys(self, rows: Tensor, steps: Tensor) -> Tensor:
        """Each lane's key for quantised gradients and dropout, (lanes,)."""
        return steps if self._draws is None else device_bits(self._roster.keys[rows], steps)

    def _loss(
        self,
        weights: dict[str, Tensor],
        buffers: dict[str, Tensor],
        features: Tensor,
        labels: Tensor,
        valid: Tensor,
        key: Tensor,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Mean loss of one lane's batch, and its buffers after the forward pass."""
        buffers = {name: value.clone() for name, value in buffers.items()}
        if self._halves is not None:
            weights = self._halves.weights(weights)
        with drawing(self._draws, key, self._model.dropout):
            output = functional_call(self._module, (weights, buffers), (features,))
            if self._halves is not None:
                output = output.float()
            if not self._padded:
                return self._task.loss(output, labels), buffers
        losses = functional.cross_entropy(output, labels, reduction="none")
        return (losses * valid).sum() / valid.sum(), buffers
