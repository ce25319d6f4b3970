"""What tables, sentences and pages need to know of a result, wherever it comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol, Self, TypeAlias

from favano import records
from favano.records import (
    AuditRecord,
    ClientScores,
    MetricRecord,
    Participation,
    Row,
    RunRecord,
    Summary,
)
from favano.records.chain import DigestCheck

Status: TypeAlias = records.Status | Literal["missing"]


class ReportedResult(Protocol):
    """Every `favano.Result` is one; its members are described there."""

    @property
    def keys(self) -> Mapping[str, object]: ...
    @property
    def folder(self) -> Path | None: ...
    @property
    def algorithm(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def status(self) -> Status: ...
    @property
    def ended(self) -> bool: ...
    @property
    def horizon(self) -> float | None: ...
    @property
    def summary(self) -> Summary: ...
    @property
    def metrics(self) -> tuple[MetricRecord, ...]: ...
    @property
    def leading(self) -> MetricRecord: ...
    @property
    def rows_to_horizon(self) -> Sequence[Row]: ...
    @property
    def final_runs(self) -> tuple[RunRecord, ...]: ...
    @property
    def participation(self) -> Participation | None: ...
    @property
    def audit(self) -> AuditRecord | None: ...
    @property
    def client_scores(self) -> ClientScores | None: ...
    @property
    def digests(self) -> DigestCheck: ...
    def noted(self, note: str) -> Self: ...
