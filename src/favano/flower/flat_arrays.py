"""Flower's named arrays as one flat model, in the order of `FlatModel`, and back."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from math import prod

import numpy as np
import torch
from flwr.app import Array, ArrayRecord
from safetensors.numpy import save

from favano.errors import require
from favano.flower.payload import Shape
from favano.training import FlatModel, Layout
from favano.training.flat import fits
from favano.types import Vector

_STATISTICS = ("running_mean", "running_var")  # of BatchNorm
_WHOLE = "iub"  # kinds of arrays that are counters


@dataclass(frozen=True)
class FlatArrays:
    """Names and shapes of the arrays of a network, and where they are in a flat model."""

    names: tuple[str, ...]  # in the network's own order
    shapes: dict[str, tuple[int, ...]]
    kinds: dict[str, np.dtype[np.generic]]
    order: tuple[str, ...]  # of a flat model: parameters, statistics, counters
    constants: dict[str, Array]  # which no flat model holds
    layout: Layout
    shape: Shape

    def vector(self, arrays: ArrayRecord) -> Vector:
        """The flat model of these arrays."""
        parts = [torch.from_numpy(arrays[name].numpy()).flatten() for name in self.order]
        return torch.cat([part.to(self.shape.dtype) for part in parts])

    def arrays(self, vector: Vector) -> ArrayRecord:
        """The arrays of a flat model."""
        kept, parts = self.constants, self._parts(vector)
        return ArrayRecord({n: kept.get(n) or self._array(n, parts[n]) for n in self.names})

    def counters(self, vector: Vector) -> dict[str, Vector]:
        """The counters of a flat model by their names."""
        parts = self._parts(vector)
        return {name: parts[name] for name in parts if self.kinds[name].kind in _WHOLE}

    def file(self, vector: Vector) -> bytes:
        """The arrays of a flat model as a safetensors file."""
        return save({name: array.numpy() for name, array in self.arrays(vector).items()})

    def _parts(self, vector: Vector) -> dict[str, Vector]:
        sizes = [prod(self.shapes[name]) for name in self.order]
        return dict(zip(self.order, torch.split(vector, sizes), strict=True))

    def _array(self, name: str, values: Vector) -> Array:
        numbers = values.detach().cpu().numpy().reshape(self.shapes[name])
        if self.kinds[name].kind in _WHOLE:
            numbers = numbers.round()
        return Array(np.asarray(numbers, dtype=self.kinds[name]))


def flat_arrays(arrays: ArrayRecord) -> FlatArrays:
    """How the arrays of a network, such as `ArrayRecord(model.state_dict())`, lie in a flat model.

    Whole numbers are counters, and BatchNorm's statistics are known by their names; all others are
    parameters. Arrays that no flat model holds are constants: complex ones, masks with infinities
    and large whole numbers.
    """
    values = {name: array.numpy() for name, array in arrays.items()}
    kinds = {name: value.dtype for name, value in values.items()}
    floats = [name for name, kind in kinds.items() if kind.kind == "f"]
    known = all(kind.kind in f"{_WHOLE}fc" for kind in kinds.values())
    require(known, "initial_arrays", kinds, "need numbers")
    types = {kinds[name] for name in floats}
    one_type = len(types) < 2 and types <= {np.dtype("float32"), np.dtype("float64")}
    rule = "need float32 or float64 for all parameters and statistics"
    require(one_type, "initial_arrays", ", ".join(map(str, types)), rule)
    dtype = torch.float64 if np.dtype("float64") in types else torch.float32
    held = {name for name, array in values.items() if fits(torch.from_numpy(array), dtype)}
    floats = [name for name in floats if name in held]
    counters = [name for name, kind in kinds.items() if kind.kind in _WHOLE and name in held]
    statistics = [name for name in floats if name.endswith(_STATISTICS)]
    parameters = [name for name in floats if name not in statistics]
    require(
        bool(parameters), "initial_arrays", len(values), "need at least one array of parameters"
    )
    sizes = tuple(size for name in parameters if (size := values[name].size))
    rest = [sum(values[name].size for name in part) for part in (statistics, counters)]
    return FlatArrays(
        names=tuple(values),
        shapes={name: value.shape for name, value in values.items()},
        kinds=kinds,
        order=(*parameters, *statistics, *counters),
        constants={name: array for name, array in arrays.items() if name not in held},
        layout=Layout(sum(sizes), rest[0], rest[1], torch.finfo(dtype).bits),
        shape=Shape(sizes, sum(rest), dtype),
    )


def check_order(model: FlatModel) -> None:
    """Refuse a network whose arrays a server would take for something else than they are.

    It sees names and numbers alone, and would mix up a buffer of floats with the parameters. Frozen
    parameters are not sent.
    """
    frozen = {parameter.data_ptr() for parameter in model.frozen.values()}
    state = model.module.state_dict()
    sent = {name: tensor for name, tensor in state.items() if tensor.data_ptr() not in frozen}
    order = flat_arrays(ArrayRecord(sent)).order
    wrong = next((name for name, own in zip_longest(order, model.names) if name != own), None)
    rule = (
        f"has {wrong}, which a server takes for a parameter, but is a buffer of floats or another "
        "name of one; register such buffers with persistent=False, or name them running_mean"
    )
    require(order == model.names, "model", type(model.module).__name__, rule)
