"""A check of which parts of a network draw random numbers; all but dropout is refused.

Batches and dropout masks are functions of (seed, client, step). Other draws, from a generator,
would make a run depend on the order in which jobs are trained.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from favano.errors import need
from favano.quantisation import Draws
from favano.training.dropout import KeyedDropout
from favano.training.flat import FlatModel

_INSTEAD = (
    "which would make a run depend on the number of processes; use only nn.Dropout or "
    "torch.nn.functional.dropout (attention and recurrent layers: dropout=0)"
)


def find_draws(
    model: FlatModel, loss: Callable[[Tensor, Tensor], Tensor], batch: Sequence[Tensor]
) -> None:
    """Find out whether the model has dropout; refuse it if anything else in it draws.

    The check is a forward pass on two samples in evaluation mode, a forward and a backward pass in
    training mode, and a second forward pass, which must give the same outputs. Afterwards the model
    and all generators are as before.
    """
    features, labels = (torch.cat([part, part])[:2] for part in batch)
    device, module = model.vector.device, model.module
    draws = model.draws or Draws()
    draws.set(0, device)
    generators = [device] if device.type == "cuda" else []
    with model.unchanged() as start, torch.random.fork_rng(devices=generators):
        with torch.no_grad(), _Watch(module.eval(), device):
            module(features)
        with _Watch(module.train(), device):
            with KeyedDropout(draws.key) as dropout:
                output = module(features)
                value = loss(output, labels)
            torch.autograd.backward(value)
        model.load(start)
        with torch.no_grad(), KeyedDropout(draws.key):
            _need_equal(module, output, module(features))
    model.gradient.zero_()
    model.draws_checked = True
    if dropout.calls:
        model.draws, model.dropout = draws, True


def _need_equal(module: nn.Module, output: object, again: object) -> None:
    """Refuse a network with an unknown generator: its second pass has other outputs."""
    if isinstance(output, Tensor) and isinstance(again, Tensor):
        equal = torch.allclose(output, again, rtol=1e-3, atol=1e-6, equal_nan=True)
        rule = f"gives different outputs for the same weights and inputs, {_INSTEAD}"
        need(equal, "model", type(module).__name__, rule)


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Refuses a network as soon as one of its operations draws from a generator."""

    def __init__(self, module: nn.Module, device: torch.device) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._module, self._device = module, device
        self._others = _other_generators()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled here; to rule it out, PyTorch would load its compiler for seconds."""
        return False

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        given = kwargs or {}
        before = self._state()
        found = func(*args, **given)
        own = any(isinstance(one, torch.Generator) for one in (*args, *given.values()))
        drawn = own or not torch.equal(before, self._state())
        self._need(not drawn, str(func))
        return found

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        """Check the generators of Python and NumPy, too."""
        super().__exit__(kind, error, trace)  # type: ignore[no-untyped-call]
        if kind is None:
            self._need(self._others == _other_generators(), "the generator of Python or NumPy")

    def _state(self) -> Tensor:
        if self._device.type == "cuda":
            return torch.cuda.get_rng_state(self._device)
        return torch.get_rng_state()

    def _need(self, good: bool, by: str) -> None:
        when = "in training" if self._module.training else "in evaluation mode"
        rule = f"draws random numbers {when} by {by}, {_INSTEAD}"
        need(good, "model", type(self._module).__name__, rule)


def _other_generators() -> tuple[object, ...]:
    """The states of Python's and NumPy's generators."""
    state = np.random.get_state(legacy=True)  # noqa: NPY002 (to see whether a network uses it)
    return random.getstate(), *(
        one.tobytes() if isinstance(one, np.ndarray) else one for one in state
    )
