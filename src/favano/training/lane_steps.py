"""One SGD step of many lanes at once.

The mini-batches of the lanes are gathered, and all their gradients computed at once by
`torch.func.vmap`. Data, batches and augmentation stay on the device.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.func import vmap
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.modules.batchnorm import _BatchNorm

from favano.quantisation import draws_of
from favano.training.calling import IGNORED
from favano.training.device_draws import device_bits
from favano.training.dropout import drawing
from favano.training.flat import FlatModel
from favano.training.lane_inputs import LaneInputs
from favano.training.lane_network import (
    batch_normalisations,
    counting,
    lane_functions,
    lane_objective,
)
from favano.training.lane_state import LaneState
from favano.training.local_rule import direction
from favano.training.objective import hooked
from favano.training.precision import HalfWeights
from favano.training.roster import Roster
from favano.training.rule_table import RuleTable
from favano.training.task import Task
from favano.types import Precision, Stack

if TYPE_CHECKING:
    from favano.training.gpu_kernels.perceptron import PerceptronSteps


class LaneSteps:
    """Makes steps of lanes whose tasks differ in clients, batch streams and local rules alone.

    Args:
        model: the lanes train copies of it.
        task: one of the tasks.
        roster: the clients of all tasks.
        rules: of all tasks.
        precision: of products.
    """

    def __init__(
        self,
        model: FlatModel,
        task: Task,
        roster: Roster,
        rules: RuleTable,
        precision: Precision,
    ) -> None:
        self._model, self._task, self._roster, self._rules = model, task, roster, rules
        self._precision = precision
        self._batch = task.batches.batch_size
        self._objective, self._fused = lane_objective(model)
        self._loss = self._objective.compute if task.loss is model.loss else task.loss
        self._unchecked = self._objective.linked
        if self._unchecked:  # who reads these, and not a lane's, is found out
            own = self._objective.loss_parameters.values()
            for parameter in (*self._objective.network.parameters(), *own):
                if parameter.requires_grad:  # others are shared
                    parameter.detach().fill_(math.nan)
        network = self._objective.network
        self._draws = draws_of(network) or model.draws
        self._halves = HalfWeights(network) if precision == "bf16" else None
        self.inputs = LaneInputs(task, roster, model.vector, half=precision == "bf16")
        classes = task.loss is functional.cross_entropy and task.labels.ndim == 1
        self.norms = batch_normalisations(network, model.vector)
        self._in_place = {
            f"{path}.{name}" if path else name
            for path, layer in self.norms.items()
            for name, buffer in layer.named_buffers()
            if buffer.is_floating_point()
        }
        # Whether short mini-batches may be padded: no layer but these looks at several samples.
        others = any(isinstance(layer, _BatchNorm) for layer in network.modules())
        buffers = sum(network.get_buffer(name).numel() for name in self._in_place)
        alone = buffers == model.layout.buffers and not others
        self.padded = classes and model.draws is None and alone
        self.ignoring = classes and bool((task.labels == IGNORED).any())

    def whole(self, slots: int) -> PerceptronSteps | None:
        """A kernel for all of several steps with plain rules, if there is one for this network."""
        # It needs tensor cores: exact products are faster one after the other.
        fast = self._precision != "float32" and self.inputs.read_as_they_are
        if not (fast and self.padded) or self.ignoring:  # the kernel knows classes alone
            return None
        from favano.training.gpu_kernels import perceptron_steps  # needs triton

        network = self._model.module
        return perceptron_steps(network, self._task, self._roster, slots, self._precision)

    def __call__(self, lanes: LaneState, some: Tensor, length: int) -> None:
        """One step of some lanes, whose mini-batches have this length or are padded to it."""
        roster, layout = self._roster, self._model.layout
        rows, steps = lanes.rows[some], lanes.steps[some]
        epoch, batch = steps // roster.batches[rows], steps % roster.batches[rows]
        within = (batch * self._batch)[:, None] + torch.arange(length, device=rows.device)
        valid = within < roster.size[rows, None]
        slot = epoch % (lanes.orders.shape[1] // roster.longest)
        place = slot[:, None] * roster.longest + within.clamp(max=roster.longest - 1)
        chosen = lanes.orders[some].gather(1, place)
        features, labels = self.inputs.of(chosen, rows, steps), self._task.labels[chosen]
        models = lanes.models[some]
        weights, buffers = self._model.named(
            models[:, : layout.parameters], models[:, layout.parameters : layout.size]
        )
        gradients, moved, losses = self._gradients(
            weights, buffers, features, labels, valid, self._keys(rows, steps)
        )
        if lanes.losses is not None:
            lanes.losses[some] = lanes.losses[some] + losses
        corrected = lanes.starts is not None or lanes.corrections is not None
        for name, buffer in buffers.items():
            if name not in self._in_place:
                buffer.copy_(moved[name])
        if self._fused is None or self._rules or corrected:
            self._descend(lanes, some, models, list(gradients.values()))
            lanes.models.index_copy_(0, some, models)  # faster than an assignment
        else:
            self._fused(models, [*gradients.values()], lanes.rates[some], lanes.models, some)
            rest = slice(layout.parameters, layout.size)
            lanes.models[:, rest].index_copy_(0, some, models[:, rest])
        lanes.steps[some] = steps + 1

    def _descend(
        self,
        lanes: LaneState,
        some: Tensor,
        models: Stack,
        gradients: Sequence[Tensor],
    ) -> None:
        """A step along corrected gradients, or by the rules of clients with an optimiser."""
        parameters, size = self._model.layout.parameters, self._model.layout.size
        weights = models[:, :parameters]
        moves = direction(
            torch.cat([gradient.reshape(len(gradient), -1) for gradient in gradients], dim=1),
            weights,
            weights if lanes.starts is None else lanes.starts[some],
            pull=None if lanes.starts is None else lanes.pulls[some, None],
            correction=None if lanes.corrections is None else lanes.corrections[some],
        )
        if self._rules:
            memory = models[:, size : size + self._rules.vectors * parameters]
            moves = self._rules.refined(
                moves,
                self._model.decaying(weights),
                memory.view(len(models), -1, parameters).unbind(1),
                lanes.rules[some, None],
                (lanes.steps - lanes.since)[some, None] + 1,
                lanes.numbers[:, some, None],
            )
        weights.addcmul_(moves, lanes.rates[some, None], value=-1)

    def _gradients(
        self, weights: dict[str, Tensor], buffers: dict[str, Tensor], *given: Tensor
    ) -> tuple[dict[str, Tensor], dict[str, Tensor], Tensor]:
        """Gradients of all lanes, their buffers after the forward pass, and their losses.

        Lanes do not share weights, so their gradients are those of the sum of their losses.
        `torch.func.grad` would load PyTorch's compiler, which takes seconds. Attention that
        has no kernel is made of plain products, since the gradient of PyTorch's fused one fails for
        many lanes on CUDA.
        """
        free = {name: weight.detach().requires_grad_() for name, weight in weights.items()}
        with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
            losses, moved = vmap(self._of_lane, randomness="different")(free, buffers, *given)
            slopes = torch.autograd.grad(
                losses.sum(), [*free.values()], allow_unused=True, materialize_grads=True
            )
        gradients = dict(zip(free, slopes, strict=True))
        for name, parameter in self._objective.hooked.items():
            gradients[name] = vmap(partial(hooked, parameter))(gradients[name])
        if self._unchecked:
            self._check_reads([losses, *slopes, *gradients.values()])
        return gradients, {name: buffer.detach() for name, buffer in moved.items()}, losses.detach()

    def _check_reads(self, numbers: Sequence[Tensor]) -> None:
        """Refuse a loss or a hook that holds parameters themselves, which are not those of a lane.

        In the first step, with the initial model: these parameters are NaN here.
        """
        self._unchecked = False
        if not all(bool(values.isfinite().all()) for values in numbers):
            raise ValueError("it keeps parameters of the network; let it keep the network")

    def _keys(self, rows: Tensor, steps: Tensor) -> Tensor:
        """Each lane's key for quantised gradients and dropout, (lanes,)."""
        return steps if self._draws is None else device_bits(self._roster.keys[rows], steps)

    def _of_lane(
        self,
        weights: dict[str, Tensor],
        buffers: dict[str, Tensor],
        features: Tensor,
        labels: Tensor,
        valid: Tensor,
        key: Tensor,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Mean loss of one lane's batch, and its buffers after the forward pass."""
        copied = {name: values for name, values in buffers.items() if name not in self._in_place}
        buffers = {**buffers, **self._model.typed(copied)}
        if self._halves is not None:
            weights = self._halves.weights(weights)

        def loss(output: Tensor) -> Tensor:
            if self._halves is not None:
                output = output.float()
            if not self.padded:
                return self._loss(output, labels)
            losses = functional.cross_entropy(output, labels, reduction="none")
            counted = valid & (labels != IGNORED) if self.ignoring else valid
            return (losses * counted).sum() / counted.sum()

        with (
            drawing(self._draws, key, self._model.dropout) as dropout,
            counting(self.norms, valid.sum() if self.padded and self.norms else None),
            lane_functions(self._model.vector, dropout),
        ):
            return self._objective.at(weights, buffers, features, loss), buffers
