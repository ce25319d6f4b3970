"""Results of single runs on disk: one folder per run, named by the digest of its specification.

A run whose folder holds a summary need not be made again. Only numbers are kept, no models.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from shutil import rmtree

from favano.errors import BadInput, require
from favano.records import ACCURACY, CostRecord, Entry
from favano.records.folder import CHECKPOINTS, RUNS_FOLDER, SUMMARY
from favano.results import Result, read_result, write_result
from favano.specification.digest import server_rate
from favano.studies.experiment import StudyRun
from favano.studies.footprint import Footprint


@dataclass(frozen=True)
class Archive:
    """The runs in one output folder, shared by all tables and figures in it."""

    out: Path

    def path(self, run: StudyRun) -> Path:
        """The result folder of a run."""
        return self.out / RUNS_FOLDER / run.digest

    def checkpoints(self, run: StudyRun) -> Path:
        """The folder of its checkpoints, until it has ended."""
        return self.path(run) / CHECKPOINTS

    def has(self, run: StudyRun) -> bool:
        """Whether a run was made before."""
        return (self.path(run) / SUMMARY).exists()

    def write(
        self,
        run: StudyRun,
        result: Result,
        machine_seconds: float,
        footprint: Footprint,
        command: str,
    ) -> None:
        """Write the result of a run that ended, even by NaN."""
        result.summary.cost = CostRecord(
            machine_seconds=round(machine_seconds, 3),
            energy_wh=round(footprint.energy_wh(machine_seconds), 5),
            co2_grams=round(footprint.co2_grams(machine_seconds), 5),
            hardware=footprint.hardware,
            constants=footprint.words,
        )
        write_result(self.path(run), result, command)
        rmtree(self.checkpoints(run), ignore_errors=True)

    def entry(self, run: StudyRun) -> Entry:
        """The run's line in a ledger; its status is `missing` if the run was not made.

        The numbers are those of the last model at or before the horizon. Updates after it, such as
        the last round of FedAvg, are not compared with other methods.
        """
        spec = run.spec
        before = Entry(
            reading=run.reading,
            algorithm=spec.name,
            column=run.column,
            seed=spec.run.seed,
            status="missing",
            learning_rate=spec.training.learning_rate,
            server_learning_rate=server_rate(spec),
            digest=run.digest,
        )
        if not self.has(run):
            return before
        result = self.read(run)
        rule = "is damaged; remove it, and it will be run again"
        require(ACCURACY in result.metrics, "out", self.path(run), rule)
        record, cost = result.final_runs[0], result.summary.cost
        assert cost is not None
        mean = record.mean_model[ACCURACY.name]
        return before._replace(
            status="complete" if result.summary.status == "complete" else "diverged",
            accuracy=record.accuracy,
            loss=record.loss,
            mean_model_accuracy=mean if isfinite(mean) else None,
            variance=record.variance,
            time=record.time,
            server_steps=record.server_steps,
            local_steps=record.local_steps,
            wall_seconds=round(record.wall_seconds, 3),
            machine_seconds=cost.machine_seconds,
            energy_wh=cost.energy_wh,
            co2_grams=cost.co2_grams,
            hardware=cost.hardware,
            version=result.summary.favano or "",
        )

    def constants(self, digests: Iterable[str]) -> str:
        """The constants with which energy and carbon of these runs were estimated."""
        folders = [self.out / RUNS_FOLDER / digest for digest in digests]
        costs = [_read(folder).summary.cost for folder in folders if (folder / SUMMARY).exists()]
        return "; ".join(dict.fromkeys(cost.constants for cost in costs if cost is not None))

    def read(self, run: StudyRun) -> Result:
        """The result of a run that was made."""
        return _read(self.path(run))


def _read(folder: Path) -> Result:
    rule = "is damaged; remove it, and it will be run again"
    try:
        result = read_result(folder)
    except BadInput as error:
        raise BadInput("out", folder, rule) from error
    if not (result.lean and result.final_runs):
        raise BadInput("out", folder, rule)
    return result
