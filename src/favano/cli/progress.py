"""Progress with the time left: a bar on a terminal, elsewhere a line per evaluation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from time import monotonic
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from favano.cli.shell import notes, say
from favano.records import LOSS, Row

_PERIOD = 0.25  # seconds between two redraws, each of which takes more than a millisecond


@contextmanager
def decoding(dataset: str) -> Iterator[Callable[[int], None]]:
    """A bar for the images of a data set; call the result with their number after each image."""
    name = TextColumn("{task.description}", style="progress.description", markup=False)
    _, *rest = Progress.get_default_columns()
    hidden = not notes.is_terminal
    with Progress(name, *rest, console=notes, transient=True, disable=hidden) as bar:
        tasks: list[TaskID] = []

        def advance(total: int) -> None:
            if not tasks:
                tasks.append(bar.add_task(f"decoding {dataset}, once", total=total))
            bar.advance(tasks[0])

        yield advance


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
        self._total, self._done, self._began = steps, 0, self._clock()
        self._task = self._bar.add_task("starting", total=max(1, steps), detail="")
        self._bar.refresh()

    def advance(self, label: str, steps: int, time: float) -> None:
        """Count local steps of a run that has reached simulated time `time`."""
        self._done += steps
        now = self._clock()
        if self._task is None or now - self._drawn < _PERIOD:
            return
        self._drawn = now
        speed = self._done / max(now - self._began, 1e-9)
        self._bar.update(
            self._task,
            completed=self._done,
            description=label,
            detail=f"time {time:,.0f}, {speed:,.0f} steps/s",
            refresh=True,
        )

    def evaluated(self, row: Mapping[str, object]) -> None:
        """Write one evaluation as a line, with the time left; for output without a terminal."""
        judged = [name for name in row if name not in ("method", *Row._fields)]
        values = ", ".join(f"{name} {row[name]:.4g}" for name in [*judged, LOSS.name])
        left = f"; {duration(self._left)} left" if self._done else ""
        line = f"{row['method']}, seed {row['seed']}, time {row['time']:g}: {values}{left}"
        self._console.print(line, soft_wrap=True, markup=False, emoji=False)

    @property
    def _left(self) -> float:
        """Seconds left at the mean speed so far."""
        return (self._clock() - self._began) * max(0, self._total - self._done) / self._done

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
    """Shows decoding and training as bars, one after another."""

    def beginning(self, missing: int, there: int) -> None:
        """Print the number of runs left."""
        if notes.is_terminal and missing:
            notes.print(f"{missing} runs to do, {there} already done")

    def say(self, sentence: str) -> None:
        """Print a message."""
        say(sentence)

    def decoding(self, dataset: str) -> AbstractContextManager[Callable[[int], None]]:
        """A bar for the images of a data set."""
        return decoding(dataset)

    def training(self) -> AbstractContextManager[TerminalProgress]:
        """A bar for the local steps of the runs."""
        return TerminalProgress(notes)
