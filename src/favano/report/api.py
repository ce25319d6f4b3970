"""`favano.load`: read results back."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from favano.records import ACCURACY, History, as_path
from favano.report.collection import collect
from favano.report.findings import title_of
from favano.report.page import write_page
from favano.report.result import Result


@dataclass(frozen=True)
class Loaded:
    """The results in a folder, one per method."""

    results: list[Result]

    @property
    def history(self) -> History:
        """The evaluations up to the horizon, as columns; with a method column if several."""
        return History.of({result.name: result.rows for result in self.results})

    @property
    def accuracy(self) -> dict[str, list[float]]:
        """Accuracy of each seed at the horizon, by method."""
        return self.final(ACCURACY.name)

    def final(self, metric: str | None = None) -> dict[str, list[float]]:
        """The value of each seed at the horizon, by method: of a metric, or of the leading one."""
        return {result.name: result.final(metric) for result in self.results}

    def report(self, page: Path | str, title: str | None = None) -> Path:
        """Write one self-contained HTML page."""
        path = as_path("page", page)
        write_page(self.results, path, title=title or title_of(self.results))
        return path


def load(folder: Path | str) -> Loaded:
    """Read a result folder written by `save` or the command line, or a folder of several."""
    return Loaded(collect([as_path("folder", folder)]))
