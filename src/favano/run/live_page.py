"""A page of the results so far, while the runs go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from threading import Lock
from typing import Any

from favano.records import Row
from favano.report import title_of
from favano.report.live import LivePage, live_server
from favano.results import Result
from favano.run.listeners import Listener
from favano.run.observer import Evaluation

_CELLS = {*Row._fields, "method"}


class RunningResults:
    """Results as far as they are known: a listener that the page asks."""

    name = "live"

    def __init__(self, results: Sequence[Result]) -> None:
        self._results = {result.algorithm: result for result in results}
        self._lock, self._heard = Lock(), False

    def hear(self, made: Evaluation) -> None:
        """Add an evaluation to its result."""
        cells: dict[str, Any] = dict(made)
        method = cells.pop("method")
        metrics = {name: cells.pop(name) for name in made if name not in _CELLS}
        with self._lock:
            result = self._results[method]
            result.rows.append(Row(**cells, metrics=metrics))
            result.summary.metrics = made.metrics
            self._heard = True

    def so_far(self) -> list[Result]:
        """Copies of the results, which do not change any more; none before the first evaluation."""
        with self._lock:
            return [
                replace(result, rows=list(result.rows), summary=replace(result.summary))
                for result in self._results.values()
                if self._heard
            ]

    def close(self) -> None:
        """There is nothing to finish."""


@contextmanager
def live_page(
    results: Sequence[Result], report: str, say: Callable[[str], None], target: float | None = None
) -> Iterator[list[Listener]]:
    """Serve a page of these results while the block lasts; yields what is to hear of evaluations.

    Args:
        results: those that are there already, and empty or shorter ones of the runs to come.
        report: where the report of the whole runs will be.
        say: is told the address.
        target: as in the report.
    """
    running = RunningResults(results)
    page = LivePage(running.so_far, title_of(results), report, target)
    with ExitStack() as served:
        try:
            say(f"the results so far: {served.enter_context(live_server(page))}")
        except OSError as error:  # the runs matter more
            say(f"live: no page can be served ({error.strerror or error}); the runs go on")
            yield []
            return
        yield [running]


def beginning(result: Result) -> Result:
    """A result whose runs are about to begin or to go on."""
    return replace(
        result, rows=list(result.rows), summary=replace(result.summary, status="partial")
    )
