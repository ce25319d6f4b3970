"""`runs/<digest>.json`: one run of `favano reproduce`, named by the digest of its specification."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import nan
from typing import Annotated, Final, cast

from pydantic import BeforeValidator, ValidationInfo

from favano.records.document import finite, from_json, null_is_nan, omitted, to_json
from favano.records.history import Row, columns
from favano.records.ledger import Entry
from favano.records.metric import ACCURACY, MetricRecord

FOLDER: Final = "runs"


def _as_rows(lists: object, file: ValidationInfo) -> object:
    """The lists of a history, with the metrics of each in a mapping."""
    if not isinstance(lists, list) or "metrics" not in file.data:
        return lists
    names = [metric.name for metric in file.data["metrics"]]
    first = Row._fields.index("metrics")
    last = first + len(names)
    return [
        [*cells[:first], dict(zip(names, cells[first:last], strict=True)), *cells[last:]]
        for cells in map(null_is_nan, lists)
        if isinstance(cells, list)
    ]


@dataclass(frozen=True, kw_only=True)
class RunFile:
    """The content of a run file."""

    favano: str  # the version that wrote it
    command: str
    spec: dict[str, object]
    footprint: str  # constants used for energy and carbon
    kernels: str | None = None  # CPU kernels used for training; unknown in earlier versions
    torch: str | None = omitted(None)  # its version
    processor: str | None = omitted(None)  # or the GPU
    data: str | None = omitted(None)  # digest of training and test data
    entry: Entry
    metrics: tuple[MetricRecord, ...] = omitted((ACCURACY,))
    history: Annotated[tuple[Row, ...], BeforeValidator(_as_rows)]

    def __post_init__(self) -> None:
        if "algorithm" not in self.spec:
            raise ValueError("the specification names no algorithm")


def run_to_json(run: RunFile) -> str:
    """The text of a run file; each row of the history is a list of the cells of its columns."""
    digests = any(row.digest for row in run.history)
    header = columns((metric.name for metric in run.metrics), digests=digests)
    lists = [[row.cell(name) for name in header] for row in run.history]
    return to_json({**cast(dict[str, object], finite(run)), "history": lists}) + "\n"


def run_from_json(text: str) -> RunFile:
    """The inverse of `run_to_json`; a `ValueError` if the file is damaged."""
    run = from_json(RunFile, text)
    entry = run.entry
    loss, variance = (nan if value is None else value for value in (entry.loss, entry.variance))
    return replace(run, entry=entry._replace(loss=loss, variance=variance))
