"""Progress of runs: a bar on a terminal or in a notebook, elsewhere a line per tenth."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from time import monotonic
from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

_PERIOD = 0.25  # seconds between two redraws, each of which takes more than a millisecond


def draws_bars(console: Console) -> bool:
    """Whether this is a terminal, or a notebook with widgets."""
    return console.is_terminal or (console.is_jupyter and find_spec("ipywidgets") is not None)


class Progress(Protocol):
    """Is told how far the runs are."""

    def begin(self, steps: int) -> None:
        """Runs of `steps` local steps in total begin."""

    def advance(self, label: str, steps: int, time: float) -> None:
        """All runs have made `steps` more local steps; one of them has reached time `time`."""

    def end(self) -> None:
        """The runs are over."""


class Silence:
    """Progress that is not shown."""

    def begin(self, steps: int) -> None: ...

    def advance(self, label: str, steps: int, time: float) -> None: ...

    def end(self) -> None: ...


class ProgressBar:
    """Simulated time reached, local steps per second and time left."""

    def __init__(self, console: Console, clock: Callable[[], float] = monotonic) -> None:
        self._console, self._clock, self._drawing = console, clock, draws_bars(console)
        self._bar = Bar(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TextColumn("{task.fields[detail]}"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not self._drawing,
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
        if steps and not self._drawing:
            print_line(self._console, f"0 %: {steps:,} local steps to make")
        self._task = self._bar.add_task("starting", total=max(1, steps), detail="")
        self._bar.refresh()

    def advance(self, label: str, steps: int, time: float) -> None:
        """Count local steps of a run that has reached simulated time `time`."""
        self._done += steps  # fewer than none where a machine of a cluster is lost
        if self._drawing:
            self._draw(label, time)
        elif (reached := tenths(self._done, self._total)) > self._tenths:
            self._tenths = reached
            left = duration(self._spent * max(0, self._total - self._done) / self._done)
            words = filter(None, (label, self._detail(time), f"{left} left"))
            print_line(self._console, f"{10 * reached} %: {', '.join(words)}")

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


def tenths(done: int, total: int) -> int:
    """How many tenths of it are done."""
    return 10 * min(done, total) // max(1, total)


def print_line(console: Console, text: str) -> None:
    """Print a text on a line of its own, as it is."""
    console.print(text, soft_wrap=True, markup=False, emoji=False)
