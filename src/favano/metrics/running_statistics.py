"""Running statistics of a model whose clients keep their own: those of a batch of training data."""

from __future__ import annotations

from collections import Counter

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from favano.models import BatchNorm2d
from favano.training import FlatModel
from favano.types import Vector

_PASSES = 60  # running statistics have weight 0.9^60 = 0.002 at the start
_ALONE = (_BatchNorm.forward, _InstanceNorm.forward, BatchNorm2d.forward)


def load_with_statistics(model: FlatModel, vector: Vector, inputs: Tensor) -> None:
    """Load a flat model, and pass a batch through it until its statistics are those of the batch.

    What our layers and PyTorch's return in training does not depend on running statistics. So one
    pass is enough, in which each layer does its part as often as in all of them.
    """
    model.load(vector)
    module = model.module.train()
    layers = [layer for layer in module.modules() if [*layer.buffers(recurse=False)]]
    with torch.no_grad():
        if model.draws is None and all(type(layer).forward in _ALONE for layer in layers):
            if _repeated_by(layers, model, inputs):
                return
            model.load(vector)
        for number in range(_PASSES):
            if model.draws is not None:
                model.draws.set(number, model.vector.device)
            with model.drawing():
                model.outputs(inputs)


def _repeated_by(layers: list[nn.Module], model: FlatModel, inputs: Tensor) -> bool:
    """Make one pass, in which these layers repeat what they do; whether each was called once."""
    called = Counter[nn.Module]()

    def repeat(
        layer: nn.Module, given: tuple[Tensor, ...], named: dict[str, Tensor], output: Tensor
    ) -> None:
        called[layer] += 1
        for _ in range(_PASSES - 1):
            layer.forward(*given, **named)

    hooks = [layer.register_forward_hook(repeat, with_kwargs=True) for layer in layers]
    try:
        if layers:
            model.outputs(inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return called == Counter(layers)
