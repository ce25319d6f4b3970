"""Flower's named arrays as one flat model, in the order of `FlatModel`, and back."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
import torch
from flwr.app import Array, ArrayRecord
from safetensors.numpy import save

from favano.errors import need
from favano.flower.payload import Shape
from favano.training import Layout
from favano.types import Vector

_STATISTICS = ("running_mean", "running_var")  # of BatchNorm


@dataclass(frozen=True)
class FlatArrays:
    """Names and shapes of the arrays of a network, and where they are in a flat model."""

    names: tuple[str, ...]  # in the network's own order
    shapes: dict[str, tuple[int, ...]]
    kinds: dict[str, np.dtype[np.generic]]
    order: tuple[str, ...]  # of a flat model: parameters, statistics, counters
    layout: Layout
    shape: Shape

    def vector(self, arrays: ArrayRecord) -> Vector:
        """The flat model of these arrays."""
        parts = [torch.from_numpy(arrays[name].numpy()).flatten() for name in self.order]
        return torch.cat([part.to(self.shape.dtype) for part in parts])

    def arrays(self, vector: Vector) -> ArrayRecord:
        """The arrays of a flat model."""
        sizes = [prod(self.shapes[name]) for name in self.order]
        parts = dict(zip(self.order, torch.split(vector, sizes), strict=True))
        return ArrayRecord({name: self._array(name, parts[name]) for name in self.names})

    def file(self, vector: Vector) -> bytes:
        """The arrays of a flat model as a safetensors file."""
        return save({name: one.numpy() for name, one in self.arrays(vector).items()})

    def _array(self, name: str, values: Vector) -> Array:
        numbers = values.detach().cpu().numpy().reshape(self.shapes[name])
        if self.kinds[name].kind == "i":
            numbers = numbers.round()
        return Array(np.asarray(numbers, dtype=self.kinds[name]))


def flat_arrays(arrays: ArrayRecord) -> FlatArrays:
    """How the arrays of a network, such as `ArrayRecord(model.state_dict())`, lie in a flat model.

    Whole numbers are counters, and BatchNorm's statistics are known by their names; all others are
    parameters.
    """
    found = {name: one.numpy() for name, one in arrays.items()}
    kinds = {name: one.dtype for name, one in found.items()}
    floats = [name for name, kind in kinds.items() if kind.kind == "f"]
    counters = [name for name, kind in kinds.items() if kind.kind == "i"]
    need(len(floats) + len(counters) == len(found), "initial_arrays", kinds, "need numbers")
    statistics = [name for name in floats if name.endswith(_STATISTICS)]
    parameters = [name for name in floats if name not in statistics]
    need(bool(parameters), "initial_arrays", len(found), "need at least one array of parameters")
    types = {kinds[name] for name in floats}
    one_type = types in ({np.dtype("float32")}, {np.dtype("float64")})
    rule = "need float32 or float64 for all parameters and statistics"
    need(one_type, "initial_arrays", ", ".join(map(str, types)), rule)
    dtype = torch.float32 if np.dtype("float32") in types else torch.float64
    sizes = tuple(size for name in parameters if (size := found[name].size))
    rest = [sum(found[name].size for name in part) for part in (statistics, counters)]
    return FlatArrays(
        names=tuple(found),
        shapes={name: one.shape for name, one in found.items()},
        kinds=kinds,
        order=(*parameters, *statistics, *counters),
        layout=Layout(sum(sizes), rest[0], rest[1], torch.finfo(dtype).bits),
        shape=Shape(sizes, sum(rest), dtype),
    )
