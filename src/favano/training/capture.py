"""Launches as CUDA graphs: recorded once for each shape, then replayed without the host."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import ClassVar
from weakref import WeakValueDictionary

import torch
from torch import Tensor

_WARM_UP = 2  # runs of a launch before it is captured


class _Memory:
    """For the insides of all graphs: no two of them run at a time, and nothing of them stays.

    PyTorch gives up such memory for good with the last graph in it; the first one, which does
    nothing of use, stays as long as somebody may still record another.
    """

    _shared: ClassVar[WeakValueDictionary[int, _Memory]] = WeakValueDictionary()

    def __init__(self) -> None:
        self.handle = torch.cuda.graph_pool_handle()
        self._first = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._first, pool=self.handle):
            torch.zeros(1, device="cuda")

    @classmethod
    def shared(cls) -> _Memory:
        """That of the device at hand."""
        device = torch.cuda.current_device()
        memory = cls._shared.get(device) or cls()
        cls._shared[device] = memory
        return memory


class Captured:
    """The graphs captured so far. They run one after the other and share their memory.

    The launches before a capture are real work: nothing is run twice. A graph reads and writes
    tensors in place, so whatever it works on must stay where it is.
    """

    def __init__(self) -> None:
        self._seen: dict[Hashable, int] = {}
        self._graphs: dict[Hashable, tuple[torch.cuda.CUDAGraph, list[Tensor]]] = {}
        self._memory = _Memory.shared()
        self._side = torch.cuda.Stream()  # type: ignore[no-untyped-call]

    def run(self, shape: Hashable, launch: Callable[..., None], *given: Tensor) -> None:
        """Run a launch; what it is given has the same form whenever `shape` is the same."""
        seen = self._seen.get(shape, 0)
        if seen < _WARM_UP:  # on a side stream, as capturing asks for
            self._seen[shape] = seen + 1
            self._side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self._side):
                launch(*given)
            torch.cuda.current_stream().wait_stream(self._side)
            return
        if shape not in self._graphs:
            self._graphs[shape] = self._capture(launch, [tensor.clone() for tensor in given])
        graph, places = self._graphs[shape]
        for place, tensor in zip(places, given, strict=True):
            place.copy_(tensor)
        graph.replay()

    def _capture(
        self, launch: Callable[..., None], places: list[Tensor]
    ) -> tuple[torch.cuda.CUDAGraph, list[Tensor]]:
        """Record the launch; recording runs nothing."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._memory.handle):
            launch(*places)
        return graph, places
