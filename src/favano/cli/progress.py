"""A progress bar with the time left, on a terminal; silence elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from time import monotonic
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

_PERIOD = 0.25  # seconds between two drawings, each of which takes more than a millisecond


@contextmanager
def counting(console: Console, what: str) -> Iterator[Callable[[int], None]]:
    """A bar for things counted one by one; what is yielded hears of each, and of the total."""
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        tasks: list[TaskID] = []

        def advance(total: int) -> None:
            if not tasks:
                tasks.append(bar.add_task(what, total=total))
            bar.advance(tasks[0])

        yield advance


class TerminalProgress:
    """Simulated time reached, local steps per second and time left."""

    def __init__(self, console: Console, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TextColumn("{task.fields[detail]}"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
            get_time=clock,
            auto_refresh=False,  # a drawing thread and forked workers do not go together
        )
        self._task: TaskID | None = None
        self._done = 0
        self._drawn = 0.0
        self._began = 0.0

    def __enter__(self) -> Self:
        """Start drawing; before the runs begin, kernels may be measured and gradients traced."""
        self._bar.start()
        self._task = self._bar.add_task("preparing", total=None, detail="")
        self._bar.refresh()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the terminal clean."""
        self._bar.stop()

    def begin(self, steps: int) -> None:
        """Runs of so many local steps in all begin."""
        self.end()
        self._done, self._began = 0, self._clock()
        self._task = self._bar.add_task("starting", total=max(1, steps), detail="")
        self._bar.refresh()

    def advance(self, label: str, steps: int, time: float) -> None:
        """So many more local steps are done, in a run that has reached simulated time `time`."""
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

    def end(self) -> None:
        """The runs, or what came before them, are over."""
        if self._task is not None:
            self._bar.remove_task(self._task)
            self._task = None


class TerminalWatcher:
    """Shows decoding and training as bars, one after the other."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def beginning(self, missing: int, there: int) -> None:
        """Say on a terminal what is left to do."""
        if self._console.is_terminal and missing:
            self._console.print(f"{missing} runs to make, {there} made before")

    def decoding(self, dataset: str) -> AbstractContextManager[Callable[[int], None]]:
        """A bar for the images of a data set."""
        return counting(self._console, f"decoding {dataset}, once")

    def training(self) -> AbstractContextManager[TerminalProgress]:
        """A bar for the local steps of the runs."""
        return TerminalProgress(self._console)
