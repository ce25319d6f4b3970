"""The memory that a forward pass takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode


def largest_activation(network: Callable[[Tensor], object], inputs: Tensor) -> int:
    """The most numbers that one operation of a network makes of one sample.

    What does not grow from two samples to three, as a copy of weights, is not counted. One sample
    would not do, since PyTorch leaves operations out for it.
    """
    sizes = []
    for samples in (2, 3):
        with torch.no_grad(), _Sizes() as seen:
            network(inputs[:samples])
        sizes.append(seen.sizes)
    return max((three - two for two, three in zip(*sizes, strict=False)), default=0)


class _Sizes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes how many numbers every operation gives."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.sizes: list[int] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled here; to rule it out, PyTorch would load its compiler for seconds."""
        return False

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        output = func(*args, **(kwargs or {}))
        parts = output if isinstance(output, tuple | list) else [output]
        self.sizes += [part.numel() for part in parts if isinstance(part, Tensor)]
        return output
