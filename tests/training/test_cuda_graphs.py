"""Captured graphs and Python's garbage collector, and the time of events."""

from __future__ import annotations

import gc
from time import perf_counter, sleep

import pytest
import torch
from torch import Tensor

from favano.training import GraphCache, new_stream, on_stream
from favano.training.cuda_graphs import EventClock, event_now


@pytest.mark.gpu
def test_no_garbage_is_collected_during_a_capture() -> None:
    """A graph that is deleted would make the capture invalid."""
    number = torch.zeros(1, device="cuda")
    before = [torch.cuda.CUDAGraph()]
    with torch.cuda.graph(before[0]):
        number.add_(0)

    def launch() -> None:
        number.add_(1)
        if torch.cuda.is_current_stream_capturing():
            garbage: list[object] = [before.pop()]
            garbage.append(garbage)
            del garbage
            [[] for _ in range(100_000)]  # wakes the collector

    graphs = GraphCache()
    for _ in range(3):
        graphs.run("launch", launch)
    assert float(number) == 3.0
    assert not before
    assert gc.isenabled()


@pytest.mark.gpu
def test_a_warm_launch_is_captured_at_once() -> None:
    number, captured = torch.zeros((), device="cuda"), list[bool]()

    def launch(given: Tensor) -> None:
        captured.append(torch.cuda.is_current_stream_capturing())
        number.add_(given.sum())

    graphs, single, two = GraphCache(), torch.ones(1, device="cuda"), torch.ones(2, device="cuda")
    graphs.run(1, launch, single)
    graphs.run(2, launch, two, warm=True)
    assert captured == [False, True]
    graphs.run(1, launch, single)
    graphs.run(2, launch, two, warm=True)
    assert captured == [False, True, True]
    assert float(number) == 6.0


@pytest.mark.gpu
def test_kernels_are_compiled_and_loaded_during_a_capture() -> None:
    from favano.training.gpu_kernels import gather_inputs

    samples = torch.rand((5, 4219), device="cuda")  # a size that no other test has
    chosen = torch.tensor([[4, 0, 1]], device="cuda")

    def launch(chosen: Tensor) -> Tensor:
        return gather_inputs(samples, chosen, torch.float32, None, None)

    inputs = GraphCache().run("inputs", launch, chosen, warm=True)
    assert torch.equal(inputs, samples[chosen])


@pytest.mark.gpu
def test_events_are_told_when_they_happened_however_late_the_host_is() -> None:
    stream = new_stream(torch.device("cuda"))
    clock, times = EventClock(stream), list[float]()
    matrix = torch.rand(2048, 2048, device="cuda")
    for _ in range(2):
        begun = perf_counter()
        with on_stream(stream):
            torch.mm(matrix, matrix)
            event = event_now()
        event.synchronize()
        ended = perf_counter()
        sleep(1.0)
        times.append(clock.time(event))
        assert begun - 0.5 < times[-1] < ended + 0.5  # a busy host takes a moment to look
    assert times[1] - times[0] > 0.9


def test_without_a_gpu_it_is_now() -> None:
    clock, before = EventClock(None), perf_counter()
    assert before <= clock.time(None) <= perf_counter()
