"""Lanes of a GPU, on the CPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from favano.engine import RunEvent
from favano.run.engines import Group, MemoryShare, on_stacks
from favano.run.seed_run import SeedRun
from favano.training import FlatModel, LaneMaker, StackLanes


@contextmanager
def cpu_stacks(
    flat: FlatModel, runs: Sequence[SeedRun], group: Group, workers: int | None
) -> Iterator[Iterator[RunEvent]]:
    """In the place of `favano.run.engines._steps`."""
    maker = LaneMaker(flat, [run.trainer for run in runs])
    yield on_stacks(runs, StackLanes(maker.at_most(16)), MemoryShare(3, 5, 0))
