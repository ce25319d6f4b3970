"""What a specification gave."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from favano.errors import NonFiniteUpdate
from favano.experiments.audit import AuditRecord
from favano.experiments.planning import Planned
from favano.experiments.records import RunRecord, Status
from favano.experiments.spec import Spec
from favano.experiments.tracking import BoundRow
from favano.metrics import Row
from favano.training import NO_TRACE, TraceReport
from favano.types import Kernels


@dataclass
class Result:
    """The history of all seeds, the last rows, the final models."""

    spec: Spec
    status: Status = "complete"
    rows: list[Row] = field(default_factory=list)
    runs: list[RunRecord] = field(default_factory=list)
    models: dict[int, dict[str, Tensor]] = field(default_factory=dict)
    bounds: list[BoundRow] = field(default_factory=list)  # with track_bound
    audit: AuditRecord | None = None  # of the first seed, if it came to its end
    error: NonFiniteUpdate | None = None  # what stopped a run, if something did
    first: Planned | None = None  # the plan of the first seed: who trains the model
    interrupted: bool = False  # by Ctrl-C
    kernels: Kernels | None = None  # of the local steps; None on a GPU
    traced: TraceReport = NO_TRACE  # how gradients were computed; no number depends on it

    @property
    def accuracy(self) -> list[float]:
        """Final accuracy of each seed."""
        return [run["accuracy"] for run in self.runs]


class Interrupted(KeyboardInterrupt):
    """Ctrl-C ended a run; `result` holds what was measured until then."""

    def __init__(self, result: Result) -> None:
        super().__init__("the run was interrupted; what was measured is in .result")
        self.result = result
