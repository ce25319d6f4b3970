"""Captured graphs and Python's garbage collector."""

from __future__ import annotations

import gc

import pytest
import torch

from favano.training import GraphCache


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
