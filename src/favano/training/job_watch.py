"""What a network or a loss may not do in a job, since a run would depend on the order of jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from favano.errors import BadInput, require
from favano.training.flat import FlatModel
from favano.training.python_state import drawn_since, global_generators

DEPENDS = "which would make a run depend on the number of processes"
INSTEAD = (
    f"{DEPENDS}; use only dropout of torch.nn, in layers of its own, attention or recurrent ones"
)
_EACH = 64  # of so many jobs the first is watched, and each of the first so many of a process


def check_ties(model: FlatModel) -> None:
    """Refuse a network with parameters, gradients or buffers that no longer lie in the vectors."""
    if moved := model.moved():
        rule = f"moves {moved} to other memory in a step, where it is not trained; write in place"
        raise BadInput("model", type(model.module).__name__, f"{rule}, as by .copy_()")


def check_constants(model: FlatModel, before: Mapping[str, int]) -> None:
    """Refuse a network that has written to a constant since it had these versions."""
    for name, version in model.constant_versions().items():
        kept = name not in model.frozen or version == before[name]
        rule = f"changes its parameter {name} in training, which is frozen (requires_grad)"
        require(kept, "model", type(model.module).__name__, rule)
        rule = (
            f"changes its buffer {name} ({model.constants[name].dtype}) in training; the server "
            "can average or count only persistent buffers of finite numbers, floats of the "
            "parameters' type or whole numbers below 2^24"
        )
        require(version == before[name], "model", type(model.module).__name__, rule)


@contextmanager
def watched(model: FlatModel) -> Iterator[None]:
    """A job: refuse a network or a loss that draws in it, or that moves what is trained.

    To look at all generators takes as long as a small step, so not all jobs are watched; beside
    other threads none is, and the trial step alone says whether a network draws.
    """
    number, model.jobs = model.jobs, model.jobs + 1
    versions = model.constant_versions()
    before = global_generators() if number < _EACH or number % _EACH == 0 else ()
    yield
    check_ties(model)
    check_constants(model, versions)
    rule = f"draws random numbers in training by a generator of all, {INSTEAD}"
    require(not drawn_since(before), "model", type(model.module).__name__, rule)


def depends_on_values(func: Any, args: Sequence[Any]) -> bool:
    """Whether the shape of a result, or a number for Python, depends on values.

    To index by places gives as many rows as there are places; to index by a mask does not.
    """
    tags = getattr(func, "tags", ())
    if func is torch.ops.aten.index.Tensor:
        return any(mask is not None and mask.dtype in (torch.bool, torch.uint8) for mask in args[1])
    return torch.Tag.data_dependent_output in tags or torch.Tag.dynamic_output_shape in tags


_READING = {
    Tensor.item,
    Tensor.tolist,
    Tensor.numpy,
    Tensor.__array__,
    Tensor.__bool__,
    Tensor.__int__,
    Tensor.__float__,
    Tensor.__complex__,
    Tensor.__index__,
}


class Readings(TorchFunctionMode):
    """Finds out whether Python reads the numbers of tensors, and so may decide by them."""

    reads_values = hooks = False  # the second: whether hooks are put on tensors

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Note what reads."""
        self.reads_values |= func in _READING
        self.hooks |= func is Tensor.register_hook
        return func(*args, **(kwargs or {}))
