"""Launches as CUDA graphs: captured once per shape, then replayed without work on the host."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import torch
from torch import Tensor


class GraphCache:
    """The graphs captured so far. They run one after the other and share their memory.

    The launch before a capture does real work: nothing is computed twice. A graph reads and writes
    tensors in place, so these must not move.
    """

    def __init__(self) -> None:
        self._seen: set[Hashable] = set()
        self._graphs: dict[Hashable, tuple[torch.cuda.CUDAGraph, list[Tensor]]] = {}
        self._pool = torch.cuda.graph_pool_handle()
        self._side = torch.cuda.Stream()  # type: ignore[no-untyped-call]

    def run(self, shape: Hashable, launch: Callable[..., None], *given: Tensor) -> None:
        """Run a launch; equal `shape` means equal shapes of the tensors that are given."""
        if shape not in self._seen:  # on a side stream, as PyTorch requires before a capture
            self._seen.add(shape)
            self._side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self._side):
                launch(*given)
            torch.cuda.current_stream().wait_stream(self._side)
            return
        if shape not in self._graphs:
            graph, places = torch.cuda.CUDAGraph(), [tensor.clone() for tensor in given]
            with torch.cuda.graph(graph, pool=self._pool):  # captures, but runs nothing
                launch(*places)
            self._graphs[shape] = graph, places
        graph, places = self._graphs[shape]
        for place, tensor in zip(places, given, strict=True):
            place.copy_(tensor)
        graph.replay()


def wait_for_device() -> None:
    """Wait until the GPU is idle: a graph must not be deleted while it runs."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
