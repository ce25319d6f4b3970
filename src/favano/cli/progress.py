"""Progress with the time left: a bar on a terminal, elsewhere a line per tenth."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from time import monotonic
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from favano.cli.shell import notes, say

_PERIOD = 0.25  # seconds between two redraws, each of which takes more than a millisecond


@contextmanager
def decoding(dataset: str) -> Iterator[Callable[[int], None]]:
    """Progress with the images of a data set; call the result with their number after each."""
    words, done = f"decoding {dataset}, once", 0
    name = TextColumn("{task.description}", style="progress.description", markup=False)
    _, *rest = Progress.get_default_columns()
    hidden = not notes.is_terminal
    with Progress(name, *rest, console=notes, transient=True, disable=hidden) as bar:
        tasks: list[TaskID] = []

        def advance(total: int) -> None:
            nonlocal done
            done += 1
            if hidden and _tenths(done, total) > _tenths(done - 1, total):
                _print_line(notes, f"{words}: {10 * _tenths(done, total)} %")
            if not tasks:
                tasks.append(bar.add_task(words, total=total))
            bar.advance(tasks[0])

        yield advance


def _tenths(done: int, total: int) -> int:
    """How many tenths of it are done."""
    return 10 * min(done, total) // max(1, total)


def _print_line(console: Console, text: str) -> None:
    console.print(text, soft_wrap=True, markup=False, emoji=False)


class TerminalProgress:
    """Simulated time reached, local steps per second and time left."""

    def __init__(self, console: Console, clock: Callable[[], float] = monotonic) -> None:
        self._console, self._clock = console, clock
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TextColumn("{task.fields[detail]}"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
            get_time=clock,
            auto_refresh=False,  # a drawing thread and forked workers do not work together
        )
        self._task: TaskID | None = None
        self._total = self._done = 0  # local steps
        self._tenths = 0  # that lines were written for
        self._drawn = 0.0
        self._began = 0.0

    def __enter__(self) -> Self:
        """Start drawing; kernels may be measured and gradients traced before the runs begin."""
        self._bar.start()
        self._task = self._bar.add_task("preparing", total=None, detail="")
        self._bar.refresh()
        return self

    def __exit__(self, *error: object) -> None:
        """Remove the bar."""
        self._bar.stop()

    def begin(self, steps: int) -> None:
        """Start the bar of runs with this many local steps in total."""
        self.end()
        self._total, self._done, self._tenths, self._began = steps, 0, 0, self._clock()
        if steps and not self._console.is_terminal:
            _print_line(self._console, f"0 %: {steps:,} local steps to make")
        self._task = self._bar.add_task("starting", total=max(1, steps), detail="")
        self._bar.refresh()

    def advance(self, label: str, steps: int, time: float) -> None:
        """Count local steps of a run that has reached simulated time `time`."""
        self._done += steps  # fewer than none where a machine of a cluster is lost
        if self._console.is_terminal:
            self._draw(label, time)
        elif (tenths := _tenths(self._done, self._total)) > self._tenths:
            self._tenths = tenths
            left = duration(self._spent * max(0, self._total - self._done) / self._done)
            words = filter(None, (label, self._detail(time), f"{left} left"))
            _print_line(self._console, f"{10 * tenths} %: {', '.join(words)}")

    def _draw(self, label: str, time: float) -> None:
        now = self._clock()
        if self._task is None or now - self._drawn < _PERIOD:
            return
        self._drawn = now
        detail = self._detail(time)
        self._bar.update(
            self._task, completed=self._done, description=label, detail=detail, refresh=True
        )

    def _detail(self, time: float) -> str:
        return f"time {time:,.0f}, {self._done / max(self._spent, 1e-9):,.0f} steps/s"

    @property
    def _spent(self) -> float:
        """Seconds since the runs began."""
        return self._clock() - self._began

    def end(self) -> None:
        """Remove the present bar."""
        if self._task is not None:
            self._bar.remove_task(self._task)
            self._task = None


def duration(seconds: float) -> str:
    """Seconds, minutes or hours in words.

    >>> duration(7.4), duration(95), duration(7300)
    ('7 s', '2 min', '2 h 2 min')
    """
    minutes = round(seconds / 60)
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


class TerminalWatcher:
    """Shows decoding and training, one after another."""

    def beginning(self, missing: int, there: int) -> None:
        """Print the number of runs left."""
        if missing:
            notes.print(f"{missing} runs to do, {there} already done")

    def say(self, sentence: str) -> None:
        """Print a message."""
        say(sentence)

    def decoding(self, dataset: str) -> AbstractContextManager[Callable[[int], None]]:
        """Progress with the images of a data set."""
        return decoding(dataset)

    def training(self) -> AbstractContextManager[TerminalProgress]:
        """Progress with the local steps of the runs."""
        return TerminalProgress(notes)
