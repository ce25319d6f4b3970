"""CUDA graphs of launches: captured once per shape, then replayed with little work of the host."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import torch
from torch import Tensor

_WARM_UP = 2  # runs of a launch before it is captured


class GraphCache:
    """The graphs captured so far. They run one after the other and share their memory.

    The launches before a capture are real work: nothing runs twice. A graph reads and writes
    tensors in place, so they must keep their memory.
    """

    def __init__(self) -> None:
        self._seen: dict[Hashable, int] = {}
        self._graphs: dict[Hashable, tuple[torch.cuda.CUDAGraph, list[Tensor]]] = {}
        self._pool = torch.cuda.graph_pool_handle()
        self._side = torch.cuda.Stream()  # type: ignore[no-untyped-call]

    def run(self, shape: Hashable, launch: Callable[..., None], *given: Tensor) -> None:
        """Run a launch; its arguments have the same shapes whenever `shape` is the same."""
        seen = self._seen.get(shape, 0)
        if seen < _WARM_UP:  # on a side stream, as capturing requires
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
        """Capture the launch; this does not run it."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            launch(*places)
        return graph, places


def wait_for_device() -> None:
    """Wait until the device is idle: graphs must not be deleted while they run."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
