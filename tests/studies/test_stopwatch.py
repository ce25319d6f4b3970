"""Times of runs, told by a clock that is set by hand."""

from __future__ import annotations

import pytest

from favano.studies.stopwatch import Stopwatch


class Clock:
    """Stands still until it is set."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def watched(start: float, updates: list[tuple[float, int]], begun: float = 1.0) -> Stopwatch:
    """A run that was called at `start`, with updates at these times, of so many steps."""
    clock = Clock()
    clock.now = start
    watch = Stopwatch(clock)
    clock.now = begun
    watch.begin(sum(steps for _, steps in updates))
    for time, steps in updates:
        clock.now = time
        watch.advance("run", steps, 0.0)
    watch.end()
    return watch


def test_the_start_is_told_apart() -> None:
    watch = watched(0.5, [(21.0, 10), (22.0, 10), (23.0, 20)])
    assert (watch.moments, watch.steps) == (3, 40)
    assert watch.start_up == 20.5  # with what passes before the beginning
    assert (watch.seconds, watch.running) == (22.0, 2.0)


def test_the_steady_rate_is_that_of_the_middle_half() -> None:
    """Neither the start, nor work done before the first update, nor idle lanes at the end count."""
    early = [(100.0, 10), *((100.0, 10) for _ in range(20))]  # was trained ahead
    middle = [(100.0 + step, 10) for step in range(1, 60)]
    late = [(160.0 + 50 * step, 10) for step in range(20)]
    assert watched(0.0, early + middle + late).steady_rate == pytest.approx(10.0)


def test_a_short_run_is_timed_from_its_beginning() -> None:
    assert watched(0.0, [(5.0, 60), (7.0, 60)]).steady_rate == 120 / 6.0
    one_large = [(float(second), 1 if second != 5 else 1000) for second in range(2, 12)]
    assert watched(0.0, one_large).steady_rate == pytest.approx(1009 / 10.0)


def test_a_run_without_updates_has_no_speed() -> None:
    watch = watched(0.0, [])
    assert (watch.start_up, watch.running, watch.steady_rate) == (0.0, 0.0, 0.0)
