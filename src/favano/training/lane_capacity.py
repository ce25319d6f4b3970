"""The number of lanes: as many as fit into the memory of a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from traceback import walk_tb
from typing import NamedTuple

import torch
from torch import nn

from favano.errors import BadInput
from favano.training.flat import FlatModel
from favano.training.lane_stack import WIDEST, LaneStack
from favano.training.loop import LoopTrainer
from favano.training.objective import Objective
from favano.training.roster import make_roster
from favano.types import Precision

MOST_LANES = 2048
_PROBED = 8  # lanes in the launch that is measured


class LaneMemory(NamedTuple):
    """Bytes per lane."""

    kept: int  # all the time
    launch: int  # during a launch: activations, gradients, copies of the model


class StackSize(NamedTuple):
    """Number of lanes, and the most lanes per launch."""

    capacity: int
    widest: int


def lanes_that_fit(room: int, needs: LaneMemory, *, widest: int | None) -> StackSize:
    """The most lanes that fit into `room` bytes, a power of two.

    A launch advances `widest` lanes, halved until there are eight times as many to choose from.
    With None it advances half of the lanes.
    """
    # Memory of a launch is needed once before the capture, and once in the graphs.
    kept, launch = needs.kept, 2 * needs.launch
    if widest is None:
        lanes = _power_of_two(room // (kept + launch // 2))
        return StackSize(lanes, max(1, lanes // 2))
    while widest > 1:
        lanes = _power_of_two((room - widest * launch) // kept)
        if lanes >= 8 * widest:
            return StackSize(lanes, widest)
        widest //= 2
    return StackSize(1, 1)


def _power_of_two(lanes: int) -> int:
    """The largest power of two that is not above `lanes`, from 1 to `MOST_LANES`.

    >>> [_power_of_two(lanes) for lanes in (-5, 1, 37, 64, 5000)]
    [1, 1, 32, 64, 2048]
    """
    return min(MOST_LANES, 1 << (max(1, lanes).bit_length() - 1))


class LaneMaker:
    """Makes a stack of lanes, with as many lanes as fit into memory.

    Args:
        model: the lanes train copies of it.
        trainers: one per task.
        precision: of products.
        ahead: end models per lane that the engine keeps.
    """

    def __init__(
        self,
        model: FlatModel,
        trainers: Sequence[LoopTrainer],
        precision: Precision = "tf32",
        *,
        ahead: int = 0,
    ) -> None:
        self._model, self._trainers, self._precision = model, trainers, precision
        self._ahead = ahead
        self._roster = make_roster(
            [trainer.task.batches for trainer in trainers], model.vector.device
        )
        self._widest: int | None = None

    def fitting(self, room: int) -> LaneStack:
        """A stack of as many lanes as fit into `room` bytes of the device."""
        needs, widest = self._measured()
        fit = lanes_that_fit(room, needs, widest=widest)
        self._widest = fit.widest
        return self.at_most(fit.capacity)

    def at_most(self, capacity: int) -> LaneStack:
        """A stack of `capacity` lanes, halved until there is memory for a launch.

        A network that cannot be trained even in one lane is refused.
        """
        stack: LaneStack | None
        while True:
            try:
                stack = self._stack(capacity)
                stack.compile()
                stack.try_launch()
                return stack
            except torch.cuda.OutOfMemoryError:
                if capacity == 1:
                    raise
            # Lanes may refuse a network: vmap cannot batch every operation, and says so only when
            # it runs. One lane decides, since wider stacks also fail for their size.
            except Exception as error:  # perhaps too many numbers for a kernel
                if capacity == 1:
                    raise _refusal(self._model.module, error) from error
            stack = None  # before a smaller one is made
            torch.cuda.empty_cache()
            capacity //= 2

    def _stack(self, capacity: int) -> LaneStack:
        return LaneStack(
            self._model, self._trainers, capacity, self._precision, self._roster, self._widest
        )

    def _measured(self) -> tuple[LaneMemory, int | None]:
        """Memory per lane, measured in a small launch, and the most lanes per launch."""
        model = self._model.vector
        stack = self.at_most(_PROBED)  # after a first launch: libraries allocate memory in it
        torch.cuda.reset_peak_memory_stats(model.device)
        before = torch.cuda.memory_allocated(model.device)
        stack.try_launch()
        launch = (torch.cuda.max_memory_allocated(model.device) - before) // stack.capacity
        needs = LaneMemory(stack.lane_bytes + self._ahead * model.nbytes, launch)
        return needs, None if stack.together else WIDEST


def _refusal(network: nn.Module, error: Exception) -> BadInput:
    """What `torch.func.vmap` cannot do, and the layer in which it was to be done."""
    callers = (frame.f_locals.get("self") for frame, _ in walk_tb(error.__traceback__))
    kinds = (caller for caller in callers if not isinstance(caller, Objective))
    layers = [caller for caller in kinds if isinstance(caller, nn.Module)]
    where = "loss or gradient"
    if layers and isinstance(layers[0], type(network)):  # the lanes' copy of the network
        names = {id(layer): name for name, layer in layers[0].named_modules()}
        name = names.get(id(layers[-1]))
        where = f"layer {name} ({type(layers[-1]).__name__})" if name else "forward pass"
    problem = str(error).partition("\n")[0].partition(". ")[0].removeprefix("vmap: ")
    rule = f"cannot be trained in lanes of a GPU, many models at once; {where}: {problem}"
    return BadInput("model", type(network).__name__, f"{rule}; use engine=loop")
