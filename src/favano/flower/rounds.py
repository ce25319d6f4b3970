"""What is recorded of each round of a federation, and the result made of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean

from flwr.app import MetricRecord
from flwr.serverapp.strategy import Result

from favano.flower.influence import UNUSED
from favano.flower.ledger import Ledger
from favano.schedule.contact_trace import ContactTrace


@dataclass(frozen=True)
class Round:
    """One update of the server model."""

    number: int  # 1, 2, ...
    seconds: float  # since the federation began
    wait: float  # seconds that the server waited for client updates that were due
    clients: tuple[int, ...]  # whose updates were used
    steps: tuple[int, ...]
    staleness: tuple[int, ...]
    bytes_up: int  # so far
    bytes_down: int
    metrics: Mapping[str, float] = field(default_factory=dict)  # means of what clients told

    def record(self) -> MetricRecord:
        """As Flower keeps metrics."""
        metrics: dict[str, int | float | list[int] | list[float]] = {
            "answers": len(self.clients),
            "local_steps": sum(self.steps),
            "seconds": self.seconds,
            "wait_seconds": self.wait,
            "bytes_up": self.bytes_up,
            "bytes_down": self.bytes_down,
            **{f"client-{name}": value for name, value in self.metrics.items()},
        }
        if self.staleness:
            metrics["staleness"] = fmean(self.staleness)
        return MetricRecord({**metrics})

    def document(self) -> dict[str, object]:
        """As plain data."""
        return asdict(self)


def read_round(document: Mapping[str, object]) -> Round:
    """The inverse of `document`."""
    lists = {key: tuple(value) for key, value in document.items() if isinstance(value, list)}
    return Round(**{**document, **lists})  # type: ignore[arg-type]


@dataclass(frozen=True)
class NodeRecord:
    """A client's part in a federation."""

    client: int
    node: int  # Flower's number of its last node
    contacts: int  # client updates that were used
    steps: int
    seconds: float  # of training
    refusals: Mapping[str, int]
    clipped: int  # changes of the model that were too long, and used in part
    failures: int  # calls that were not answered, though the node was there
    p_positive: float | None = None  # P(E > 0), as estimated
    p_positive_error: float | None = None
    mean_steps: float | None = None  # E[min(E, K)], as estimated
    mean_steps_error: float | None = None
    lost_seconds: float | None = None  # per contact, in which it cannot train


@dataclass
class AsyncResult(Result):
    """Flower's result, with what only an asynchronous federation has."""

    rounds: Sequence[Round] = ()
    nodes: Sequence[NodeRecord] = ()
    refusals: int = 0
    trace: ContactTrace | None = None
    influence: float | None = None  # bound of each client's; None: there was none
    most_unused: int = 0  # client updates in a row of which the bound left nothing, at most

    def __repr__(self) -> str:
        """Flower's, and what the bound did."""
        return "\n".join(filter(None, [Result.__repr__(self), self.bound]))

    @property
    def bound(self) -> str:
        """What the bound on the influence of clients did, in words; empty: there was none."""
        if self.influence is None:
            return ""
        shortened = sum(node.clipped for node in self.nodes)
        words = f"--influence {self.influence:g} was on, {shortened} client updates were shortened"
        if self.used_nothing:
            words += (
                f", and nothing of {self.most_unused} in a row was used; "
                "leave it out if you trust the nodes"
            )
        return words

    @property
    def used_nothing(self) -> bool:
        """Whether the bound left nothing of ten client updates in a row."""
        return self.influence is not None and self.most_unused >= UNUSED

    @property
    def longest_wait(self) -> float:
        """Seconds that a round waited for client updates that were due, at most."""
        return max((past.wait for past in self.rounds), default=0.0)


def node_records(ledger: Ledger) -> list[NodeRecord]:
    """Every client's part so far."""
    import numpy as np

    clients = np.array(sorted(ledger.node_of), dtype=np.int64)
    if not len(clients):
        return []
    known, estimates = ledger.timeline.known, ledger.estimates
    used = np.isfinite(ledger.timeline.due)
    size = ledger.clients
    steps = np.bincount(known.client[used], known.steps[used], minlength=size)
    seconds = np.bincount(
        known.client[used], ledger.timeline.noted("seconds")[used], minlength=size
    )
    guesses: list[dict[str, float]] = [{} for _ in clients]
    if estimates is not None:
        expected, errors = estimates.expected(clients), estimates.errors(clients)
        columns = (*expected, *errors, estimates.lost_seconds[clients])
        names = ("p_positive", "mean_steps", "p_positive_error", "mean_steps_error", "lost_seconds")
        guesses = [
            dict(zip(names, map(float, row), strict=True)) for row in zip(*columns, strict=True)
        ]
    return [
        NodeRecord(
            client=client,
            node=ledger.node_of[client],
            contacts=len(ledger.used.get(client, ())),
            steps=int(steps[client]),
            seconds=float(seconds[client]),
            refusals=dict(ledger.refused.get(client, {})),
            clipped=ledger.clipped[client],
            failures=ledger.failures[client],
            **guess,
        )
        for client, guess in zip(clients.tolist(), guesses, strict=True)
    ]
