"""The line of a ledger that describes one run."""

from __future__ import annotations

from favano.records import Entry
from favano.run.result import Result
from favano.specification.digest import run_digest, server_rate
from favano.specification.spec import Spec


def entry_before(spec: Spec, reading: str, column: str) -> Entry:
    """The line of a run before it is made."""
    return Entry(
        reading=reading,
        algorithm=spec.name,
        column=column,
        seed=spec.run.seed,
        status="missing",
        learning_rate=spec.training.learning_rate,
        server_learning_rate=server_rate(spec),
        digest=run_digest(spec),
    )


def entry_after(before: Entry, result: Result) -> Entry:
    """The same with the numbers of the last model."""
    record = result.runs[0]
    return before._replace(
        status="complete" if result.status == "complete" else "diverged",
        accuracy=record.accuracy,
        loss=record.loss,
        mean_model_accuracy=record.mean_model["accuracy"],
        variance=record.variance,
        time=record.time,
        server_steps=record.server_steps,
        local_steps=record.local_steps,
    )
