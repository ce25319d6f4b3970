"""Results of single runs on disk: one file per run, named by the digest of its specification.

A file is written completely or not at all, so a run whose file exists need not be made again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree

import torch

from favano import __version__
from favano.errors import BadInput
from favano.records import (
    ACCURACY,
    Entry,
    RunFile,
    read_file,
    run_from_json,
    run_to_json,
    up_to,
    write_together,
)
from favano.records.run_file import FOLDER
from favano.run.hardware import hardware
from favano.run.result import Result
from favano.run.run_entry import entry_after, entry_before
from favano.specification.config import spec_keys
from favano.specification.spec import required
from favano.studies.experiment import StudyRun
from favano.studies.footprint import Footprint


@dataclass(frozen=True)
class Archive:
    """The run files of one output folder, shared by all tables and figures in it."""

    out: Path

    def path(self, run: StudyRun) -> Path:
        """The file of a run."""
        return self.out / FOLDER / f"{run.digest}.json"

    def checkpoints(self, run: StudyRun) -> Path:
        """The folder of its checkpoints, until it has ended."""
        return self.out / FOLDER / f"{run.digest}.checkpoints"

    def has(self, run: StudyRun) -> bool:
        """Whether a run was made before."""
        return self.path(run).exists()

    def write(
        self,
        run: StudyRun,
        result: Result,
        machine_seconds: float,
        footprint: Footprint,
        command: str,
    ) -> None:
        """Write the file of a run that ended, even by NaN."""
        entry = entry_after(_expected(run), result)._replace(
            wall_seconds=round(result.runs[0].wall_seconds, 3),
            machine_seconds=round(machine_seconds, 3),
            energy_wh=round(footprint.energy_wh(machine_seconds), 5),
            co2_grams=round(footprint.co2_grams(machine_seconds), 5),
            hardware=footprint.hardware,
            version=__version__,
        )
        run_file = RunFile(
            favano=__version__,
            command=command,
            spec=spec_keys(run.spec),
            footprint=footprint.words,
            kernels=result.kernels,
            torch=torch.__version__,
            processor=hardware(run.spec.run.device),
            data=result.data,
            entry=entry,
            metrics=result.metrics,
            history=tuple(result.rows),
        )
        path = self.path(run)
        write_together(path.parent, {path.name: run_to_json(run_file)})
        rmtree(self.checkpoints(run), ignore_errors=True)

    def entry(self, run: StudyRun) -> Entry:
        """The run's line in a ledger; its status is `missing` if the run was not made.

        The numbers are those of the last model at or before the horizon. Updates after it, such as
        the last round of FedAvg, are not compared with other methods.
        """
        if not self.has(run):
            return _expected(run)
        file, horizon = self.read(run), required(run.spec.run.horizon)
        entry = file.entry._replace(reading=run.reading, column=run.column)
        if entry.time is None or entry.time <= horizon:
            return entry
        rows = up_to(file.history, horizon)
        if not rows:
            raise _damaged(self.path(run))
        row = rows[-1]
        return entry._replace(
            accuracy=row.accuracy,
            loss=row.loss,
            mean_model_accuracy=None,
            variance=row.variance,
            time=row.time,
            server_steps=row.server_step,
            local_steps=row.local_steps,
        )

    def constants(self, digests: Iterable[str]) -> str:
        """The constants with which energy and carbon of these runs were estimated."""
        paths = [self.out / FOLDER / f"{digest}.json" for digest in digests]
        return "; ".join(dict.fromkeys(_read(path).footprint for path in paths if path.exists()))

    def read(self, run: StudyRun) -> RunFile:
        """Read the file of a run that was made."""
        return _read(self.path(run))


def _read(path: Path) -> RunFile:
    try:
        run_file = read_file(path, run_from_json)
    except BadInput as error:
        raise _damaged(path) from error
    if ACCURACY not in run_file.metrics:
        raise _damaged(path)
    return run_file


def _damaged(path: Path) -> BadInput:
    return BadInput("out", path, "is damaged; remove it, and it will be run again")


def _expected(run: StudyRun) -> Entry:
    """The line of a run before it is made."""
    return entry_before(run.spec, run.reading, run.column)
