"""Steps are begun only if they will probably end in time."""

from __future__ import annotations

from favano.flower.stopwatch import TrainingStopwatch


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def made(until: float | None, expected: float, durations: list[float], pace: float = 0.0) -> int:
    """Steps that are made if they take this long."""
    clock = Clock()
    watch = TrainingStopwatch(until, expected, pace, clock, clock.sleep)
    for duration in durations:
        if not watch.more():
            break
        clock.sleep(duration)
    watch.stop()
    return watch.steps


def test_without_an_end_every_step_is_made() -> None:
    assert made(None, 9.0, [1.0, 5.0, 0.0]) == 3


def test_a_step_that_would_end_late_is_not_begun() -> None:
    assert made(5.0, 2.0, [2.0] * 9) == 2
    assert made(6.0, 2.0, [2.0] * 9) == 3


def test_the_first_step_is_judged_by_those_of_the_job_before() -> None:
    assert made(1.0, 1.5, [0.1] * 9) == 0
    assert made(1.0, 0.0, [0.1] * 9) == 9


def test_steps_of_this_job_count_more_than_those_before() -> None:
    """The first takes 3 s, not 1 s as before: a second one would end at 6."""
    assert made(5.0, 1.0, [3.0] * 9) == 1


def test_the_mean_is_what_a_step_is_expected_to_take() -> None:
    """After 1 and 3 s the mean is 2: a third step would end at 6."""
    assert made(5.9, 0.0, [1.0, 3.0, 1.0]) == 2
    assert made(6.0, 0.0, [1.0, 3.0, 1.0]) == 3


def test_the_pace_makes_fast_steps_longer_and_leaves_slow_ones() -> None:
    clock = Clock()
    watch = TrainingStopwatch(None, 0.0, 2.0, clock, clock.sleep)
    for duration in (0.5, 1.0):
        assert watch.more()
        clock.sleep(duration)
    assert watch.stop() == 4.0
    assert watch.step_seconds == 2.0
    assert made(5.0, 0.0, [3.0, 3.0], pace=1.0) == 1


def test_the_first_step_takes_its_pace_at_least() -> None:
    assert made(1.0, 0.0, [0.1] * 9, pace=1.5) == 0
    assert made(1.5, 0.0, [0.1] * 9, pace=1.5) == 1
