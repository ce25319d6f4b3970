"""The trace of a federation: its schedule as it was lived, and what else its updates used."""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np

from favano.errors import BadInput, require
from favano.file_sizes import check_archive
from favano.schedule.schedule import COLUMNS, Schedule
from favano.schedule.timeline import NOTES, SCALES, Timeline
from favano.types import Floats, Ints


@dataclass(frozen=True)
class ContactTrace:
    """Who was called when, from which version, and after how many steps client updates were used.

    The other arrays are about the jobs of the schedule, in its order.
    """

    schedule: Schedule
    rate: Floats  # (J,) step size
    seconds: Floats  # (J,) of training
    positive: Floats  # (J,) P(E > 0) of its client, as estimated when the client update came
    mean: Floats  # (J,) E[min(E, K)], likewise
    message: Floats  # (J,) number among the jobs of its client
    whole: Floats  # (J,) 1 if its client began from the server's model as it is, 0 behind a codec
    partition: Floats  # (J,) which part of the data its client had, as it said; -1: unknown
    scale: Floats  # (J,) what its change of the parameters was multiplied by, 1 if it was not
    buffer_scale: Floats  # (J,) that of the buffers
    nodes: Ints  # (n,) Flower's number of each client's last node; 0: none
    old: bool  # whether it is of a time before 0.3

    def to_bytes(self) -> bytes:
        """The content of a NumPy archive, without pickles."""
        arrays = {name: np.asarray(getattr(self.schedule, name)) for name in COLUMNS}
        arrays |= {name: getattr(self, name) for name in (*NOTES, "nodes")}
        file = BytesIO()
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
        return file.getvalue()


def trace_of(timeline: Timeline, nodes: Ints) -> ContactTrace:
    """The trace of what has happened so far."""
    order = timeline.order
    notes = {name: timeline.noted(name)[order] for name in NOTES}
    return ContactTrace(timeline.schedule, nodes=nodes, **notes, old=False)


def load_trace(path: Path) -> ContactTrace:
    """Read a trace, and check that it could have happened."""
    require(path.is_file(), "trace", path, "no such file")
    try:
        check_archive(path)
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {_NAMES_OF_0_2.get(name, name): archive[name] for name in archive}
        columns = {name: arrays[name] for name in COLUMNS}
        columns["clients"] = int(columns["clients"])
        schedule = Schedule(**columns)
        jobs = len(schedule.client)
        old = not arrays.keys() & set(SCALES)
        arrays = {name: np.ones(jobs) for name in SCALES} | arrays
        notes = {name: np.asarray(arrays[name], dtype=np.float64) for name in NOTES}
        require(
            all(note.shape == (jobs,) for note in notes.values()), "notes", jobs, "need one per job"
        )
        return ContactTrace(schedule, nodes=np.asarray(arrays["nodes"], np.int64), **notes, old=old)
    except Exception as error:  # a damaged archive may raise any error
        raise BadInput("trace", path, f"is damaged: {error}") from error


_NAMES_OF_0_2 = {"base": "start_version", "visit": "used_by", "lost": "wasted_steps"}
