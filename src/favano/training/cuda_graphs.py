"""CUDA graphs, captured once per shape and replayed without work on the host, and streams."""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import TypeAlias, TypeVar, cast

import torch
from torch import Tensor

from favano.errors import format_error
from favano.notices import notice

T = TypeVar("T")

_Captured: TypeAlias = tuple[torch.cuda.CUDAGraph, list[Tensor], object]  # inputs, result


class GraphCache:
    """The graphs captured so far. They run one after the other and share their memory.

    A launch before a capture does real work: nothing is computed twice. A graph reads and writes
    tensors in place, so these must not move.
    """

    def __init__(self) -> None:
        self._warm = set[Hashable]()
        self._graphs: dict[Hashable, _Captured] = {}
        self._cannot = False  # whether a launch does what cannot be captured
        self._side = torch.cuda.Stream()  # type: ignore[no-untyped-call]

    def __contains__(self, shape: Hashable) -> bool:
        return self._cannot or shape in self._graphs

    def run(
        self, shape: Hashable, launch: Callable[..., T], *given: Tensor, warm: bool = False
    ) -> T:
        """Run a launch; equal `shape` means equal shapes of the tensors that are given.

        Libraries do in a first launch what cannot be captured. So the first of each shape is not,
        unless it is `warm`: one of another shape has used the same libraries before. What a launch
        returns is valid until the next one.
        """
        if shape not in self._warm and not warm:
            self._warm.add(shape)
            return self._launched(launch, *given)
        if shape not in self:
            try:
                self._graphs[shape] = self._captured(launch, [tensor.clone() for tensor in given])
            except torch.cuda.OutOfMemoryError:
                raise
            except RuntimeError as error:  # such as a copy from the host in the network
                self._cannot = True
                notice(f"steps are not captured, so they take longer: {format_error(error)}")
        if self._cannot:
            return self._launched(launch, *given)
        graph, places, result = self._graphs[shape]
        for place, tensor in zip(places, given, strict=True):
            place.copy_(tensor)
        graph.replay()
        return cast(T, result)

    def _launched(self, launch: Callable[..., T], *given: Tensor) -> T:
        """A launch beside the caller's stream, as PyTorch requires before a capture."""
        with on_stream(self._side):
            result = launch(*given)
        torch.cuda.current_stream().wait_stream(self._side)
        return result

    def _captured(self, launch: Callable[..., object], places: list[Tensor]) -> _Captured:
        """A launch as a graph; it does not run.

        `torch.cuda.graph` gives all unused memory back to the driver before each capture, which is
        slow. Here that happens only if memory is short.
        """
        try:
            return self._capture(launch, places)
        except torch.cuda.OutOfMemoryError:
            pass
        torch.cuda.empty_cache()  # not in the handler: there the error still holds memory
        return self._capture(launch, places)

    def _capture(self, launch: Callable[..., object], places: list[Tensor]) -> _Captured:
        graph = torch.cuda.CUDAGraph()
        if not self._graphs:  # PyTorch refuses a pool whose only graph was given up
            self._pool = torch.cuda.graph_pool_handle()
        with on_stream(self._side), _without_garbage_collection():
            graph.capture_begin(self._pool, capture_error_mode="relaxed")  # kernels may be loaded
            try:
                return graph, places, launch(*places)
            finally:
                graph.capture_end()


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """A capture fails if a graph of an earlier run, which nobody needs any more, is deleted."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def new_stream(device: torch.device, *, urgent: bool = False) -> torch.cuda.Stream | None:
    """A stream of a GPU; kernels of an urgent one go first. None on a CPU."""
    if device.type != "cuda":
        return None
    return torch.cuda.Stream(device, priority=-int(urgent))  # type: ignore[no-untyped-call]


@contextmanager
def on_stream(stream: torch.cuda.Stream | None) -> Iterator[None]:
    """Queue work on a stream, to begin after the caller's work so far; None changes nothing."""
    if stream is None:
        yield
        return
    stream.wait_stream(torch.cuda.current_stream(stream.device))
    with torch.cuda.stream(stream):
        yield


def event_now() -> torch.cuda.Event:
    """An event after all that is queued on the current stream."""
    event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    event.record()
    return event


class EventClock:
    """Tells when events of a GPU happened, in the time of `perf_counter`."""

    def __init__(self, stream: torch.cuda.Stream | None) -> None:
        with on_stream(stream):
            self._first = event_now() if stream is not None else None
        if self._first is not None:
            self._first.synchronize()
        self._began = perf_counter()

    def time(self, event: torch.cuda.Event | None) -> float:
        """When an event happened, which the host has waited for; without one, now."""
        if self._first is None or event is None:
            return perf_counter()
        return self._began + float(self._first.elapsed_time(event)) / 1000


def wait_for_device() -> None:
    """Wait until the GPU is idle: a graph must not be deleted while it runs."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
