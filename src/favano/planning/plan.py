"""The schedule of one seed and each client's part in it, without any training."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

from favano.errors import require
from favano.planning.absence import Absence, absence
from favano.planning.audit import audit
from favano.planning.client_weights import MOST, ClientWeights
from favano.planning.participation import describe
from favano.planning.plan_table import plan_html, plan_sentences, plan_tables
from favano.planning.planned import Planned
from favano.records import AuditRecord
from favano.schedule import Schedule, save_schedule
from favano.specification.spec import required

_SAID = ("verdict", "confidence", "fair", "speeds", "availability", "left_out", "sizes")


@dataclass(frozen=True)
class Plan:
    """Who is contacted when, after how many steps, and how much each client counts."""

    planned: Planned

    def __post_init__(self) -> None:
        policy, name = self.planned.method.run_policy, self.planned.spec.name
        sees = " and ".join(policy.sees)
        rule = f"cannot be planned: its policy, {type(policy).__name__}, sees {sees} of updates"
        require(not policy.grows, "algorithm", name, rule)

    def __repr__(self) -> str:
        """One line, as notebooks show it."""
        made = f"{self.schedule.updates:,} updates of {self.schedule.jobs:,} jobs"
        return f"Plan({self.planned.spec.name}: {made} by time {self.time:,.0f})"

    def __str__(self) -> str:
        """Tables and sentences, as `favano plan` prints them."""
        return "\n".join([*map(str, plan_tables(self)), *plan_sentences(self)])

    def _repr_html_(self) -> str:
        """In a notebook: the same, with the share of each group of clients as a bar."""
        return plan_html(self)

    @property
    def schedule(self) -> Schedule:
        """All updates and jobs."""
        return self.planned.schedule

    @property
    def time(self) -> float:
        """Time of the last update."""
        return float(self.schedule.time[-1]) if self.schedule.updates else 0.0

    @property
    def client_vectors(self) -> int:
        """Vectors as long as the model that each client keeps from job to job; none travels."""
        return self.planned.memory

    @cached_property
    def weights(self) -> ClientWeights | None:
        """Each client's share in the final model; None if it is not linear in the models."""
        if not self.planned.linear:
            return None
        return self.planned.weigh(most=self.planned.fleet.clients)

    @cached_property
    def audit(self) -> AuditRecord | None:
        """Who trains the model; None if it is not linear in the models.

        Large fleets are audited by groups, without a weight of each client, which takes long.
        """
        if not self.planned.linear:
            return None
        by_groups = self.planned.fleet.clients > MOST and self.planned.fair is None
        weights = self.planned.weigh(most=0) if by_groups else self.weights
        assert weights is not None
        return audit(self.planned, weights)

    @cached_property
    def absence(self) -> Absence | None:
        """What absence and faults do; None if clients are always there and meet no fault."""
        horizon = required(self.planned.spec.run.horizon)
        return absence(self.schedule, self.planned.fleet, horizon)

    @property
    def clients(self) -> list[dict[str, object]]:
        """Contacts, steps, staleness and effective weight of each client."""
        weight = None if self.weights is None else self.weights.each
        return describe(self.schedule, self.planned.fleet, weight, self.planned.fair)

    @property
    def document(self) -> dict[str, object]:
        """As `favano plan --json` prints it."""
        record = self.audit
        return {
            "clients": self.clients,
            "server_steps": self.schedule.updates,
            "time": self.time,
            "absence": None if self.absence is None else asdict(self.absence),
            "audit": None if record is None else {key: getattr(record, key) for key in _SAID},
        }

    def save(self, folder: Path | str) -> Path:
        """Write the schedule as a NumPy archive; returns its path."""
        path = Path(folder) / "schedule.npz"
        path.parent.mkdir(parents=True, exist_ok=True)
        save_schedule(self.schedule, path)
        return path
