"""Processor time, scripted: what is short is repeated."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from favano.training.processor_time import processor_seconds
from tests.training.clock import Clock


def test_short_steps_are_repeated() -> None:
    clock, counts = Clock(), {"short": 0, "long": 0}

    def work(name: str, seconds: float) -> Callable[[], None]:
        def step() -> None:
            counts[name] += 1
            clock.now += seconds

        return step

    times = processor_seconds({"short": work("short", 0.0005), "long": work("long", 0.1)}, clock)
    assert times == {"short": pytest.approx([0.0005] * 3), "long": pytest.approx([0.1] * 3)}
    assert counts["long"] == 4
    assert counts["short"] >= 3 * 50
