"""Times of runs, told by a clock that is set by hand."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from favano.engine import RunEvent, reporter
from favano.run import engines
from favano.run.engines import Group, MemoryShare, on_stacks
from favano.run.runner import run_together
from favano.run.samples import load_samples, named_model
from favano.run.seed_run import SeedRun
from favano.specification.presets import resolve
from favano.specification.spec import make_spec
from favano.studies.stopwatch import BenchStopwatch
from favano.training import Finished, FlatModel, LaneStack, LaunchResult, StackLanes, StepsDone
from favano.types import Ints


class Clock:
    """Stands still until it is set."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def watched(start: float, updates: list[tuple[float, int]], begun: float = 1.0) -> BenchStopwatch:
    """A run that was called at `start`, with updates at these times, after so many steps."""
    clock = Clock()
    clock.now = start
    watch = BenchStopwatch(clock)
    clock.now = begun
    watch.begin(sum(steps for _, steps in updates))
    for time, steps in updates:
        clock.now = time
        watch.made(StepsDone(steps, time))
        watch.advance("run", steps, 0.0)
    watch.end()
    return watch


def test_the_start_is_told_apart() -> None:
    watch = watched(0.5, [(21.0, 10), (22.0, 10), (23.0, 20)])
    assert (len(watch.updates), watch.steps) == (3, 40)
    assert watch.start_up == 20.5  # with what passes before the beginning
    assert (watch.seconds, watch.running) == (22.0, 2.0)


def test_the_steady_rate_is_that_of_the_middle_half() -> None:
    """Neither the start, nor work done before the first update, nor idle lanes at the end count."""
    early = [(100.0, 10), *((100.0, 10) for _ in range(20))]
    middle = [(100.0 + step, 10) for step in range(1, 60)]
    late = [(160.0 + 50 * step, 10) for step in range(20)]
    assert watched(0.0, early + middle + late).steady_rate == pytest.approx(10.0)


def test_a_short_run_is_timed_from_its_beginning() -> None:
    short = watched(0.0, [(5.0, 60), (7.0, 60)])
    assert short.rate == short.steady_rate == 120 / 6.0
    one_large = [(float(second), 1 if second != 5 else 1000) for second in range(2, 12)]
    assert watched(0.0, one_large).steady_rate == pytest.approx(1009 / 10.0)


def test_the_rate_is_that_from_the_first_update_on() -> None:
    watch = watched(0.0, [(5.0, 500), (6.0, 20), (8.0, 40), (9.0, 20)])
    assert watch.rate == 80 / 4.0


def test_a_host_that_is_late_changes_no_rate() -> None:
    """Lanes make 10 steps per second; the host is busy from 3 s to 13 s."""
    clock = Clock()
    watch = BenchStopwatch(clock)
    for second in range(1, 41):
        clock.now = 13.0 if 3 < second < 13 else float(second)
        watch.made(StepsDone(10, float(second)))
        watch.advance("run", 10, 0.0)
    assert (watch.rate, watch.steady_rate) == (10.0, 10.0)


class Device:
    """Makes 1,500 local steps per second, one launch after the other.

    The host is busy for a while after it has queued each of the first launches, as it is when it
    captures graphs; the device is not idle meanwhile.
    """

    speed = 1500.0

    def __init__(self, captures: int) -> None:
        self.clock, self.busy_until, self.captures = Clock(), 0.0, captures

    def lanes(self, flat: FlatModel, runs: Sequence[SeedRun], capacity: int) -> StackLanes:
        stack = LaneStack(flat, [run.trainer for run in runs], capacity)
        lanes, launch = StackLanes(stack), stack.launch
        arrivals: deque[float] = deque()

        def timed_launch() -> LaunchResult:
            result = launch()
            arrivals.append(self.busy_until)
            if self.captures:
                self.captures -= 1
                self.clock.now = max(self.clock.now, self.busy_until)
            return result

        def timed_collect() -> Finished | None:
            finished = StackLanes.collect(lanes)
            if finished is None:
                return None
            arrival = arrivals.popleft()
            self.clock.now = max(self.clock.now, arrival)
            return finished._replace(steps_done=StepsDone(finished.steps_done.steps, arrival))

        stack._launch, stack.launch = self.train, timed_launch  # type: ignore[method-assign]
        lanes.collect = timed_collect  # type: ignore[method-assign]
        return lanes

    def train(self, lanes: Ints, count: int, length: int) -> None:
        self.busy_until = max(self.busy_until, self.clock.now) + len(lanes) / self.speed


@pytest.mark.parametrize("captures", [0, 6])
@pytest.mark.parametrize("capacity", [64, 512])
def test_the_speed_of_a_device_is_found_in_a_short_run(
    capacity: int, captures: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many jobs the lanes have begun before the first update, and however late it is."""
    device = Device(captures)

    @contextmanager
    def steps(
        flat: FlatModel, runs: Sequence[SeedRun], group: Group, workers: int | None
    ) -> Iterator[Iterator[RunEvent]]:
        yield on_stacks(runs, device.lanes(flat, runs, capacity), MemoryShare(len(runs), 64, 0))

    monkeypatch.setattr(engines, "_steps", steps)
    monkeypatch.setattr(reporter, "perf_counter", device.clock)
    keys = {"dataset": "digits", "horizon": 65.0, "evaluate_every": 65.0, "seeds": 10}
    spec = resolve(make_spec({**keys, "algorithm": "favano", "batch_size": 2}))
    digits = load_samples(spec)
    watch = BenchStopwatch(device.clock)
    model = named_model(spec, digits)
    run_together([spec], digits, model, progress=watch, on_steps=watch.made, audits=False)
    assert watch.steady_rate == pytest.approx(device.speed)
    assert watch.rate == pytest.approx(device.speed)
    assert watch.updates[0] > 0.01


def test_a_run_without_updates_has_no_speed() -> None:
    watch = watched(0.0, [])
    assert (watch.start_up, watch.running, watch.rate, watch.steady_rate) == (0.0, 0.0, 0.0, 0.0)
