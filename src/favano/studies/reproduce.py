"""Makes the missing runs of tables and figures, in parallel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from favano.data import is_natural
from favano.errors import require
from favano.notices import notice
from favano.records.folder import RUNS_FOLDER
from favano.records.ledger import RUNS, TUNING
from favano.run.backend import THIS_MACHINE, Place, RunTogether
from favano.run.data import load_data
from favano.specification.parts import ProblemPart
from favano.specification.spec import Spec, required
from favano.studies.archive import Archive
from favano.studies.experiment import Experiment, StudyRun, make
from favano.studies.footprint import Footprint
from favano.studies.request import Request, finalists, first_runs, tuned_parts, write_parts
from favano.studies.run_maker import RunMaker, Watcher, check_all, still_to_make


class Stopped(RuntimeError):
    """Ctrl-C was pressed; runs that have ended are kept, the others go on from checkpoints."""


def reproduce(
    experiments: Sequence[Experiment],
    request: Request,
    out: Path,
    *,
    data_dir: Path | None,
    footprint: Callable[[], Footprint],
    command: str,
    watcher: Watcher,
    at_once: int | None = None,
    checkpoint_every: float | None = None,
    place: Place = THIS_MACHINE,
) -> None:
    """Make the missing runs, then write each experiment's ledgers and curves.

    If no run is missing, neither their device nor their data have to be here.
    After Ctrl-C they are written from the runs that have ended, before `Stopped` is raised.
    """
    require(at_once is None or at_once >= 1, "at_once", at_once, "need 1 or more")
    archive = Archive(out)
    if old := len(list(out.glob(f"{RUNS_FOLDER}/*.json"))):
        notice(f"files of an earlier release in {RUNS_FOLDER} are not read: {old}")
    asked = {experiment.name: request.parts(experiment) for experiment in experiments}
    every = [run for part in asked.values() for runs in part.values() for run in runs]
    check_all(still_to_make(every, archive), out, data_dir, place)
    count = _ClientCount(data_dir, watcher)
    parts = {
        name: {file: count.fill(runs) for file, runs in part.items()}
        for name, part in asked.items()
    }

    def load(spec: Spec, on_image: Callable[[int], None]) -> RunTogether:
        return place.load(spec, data_dir, on_image)

    maker = RunMaker(
        archive, load, cache(footprint), command, watcher, at_once, checkpoint_every, place
    )
    stopped = False
    try:
        maker.make(
            [
                run
                for experiment in experiments
                for run in first_runs(experiment, parts[experiment.name])
            ]
        )
        for experiment in experiments:
            # Trials may have fewer clients than other runs: held-out samples can be all of one's.
            part = {**parts[experiment.name], RUNS: asked[experiment.name][RUNS]}
            if best := count.fill(finalists(experiment, part, archive)):
                parts[experiment.name][TUNING] += best
                maker.make(best)
        tuned = {
            experiment.name: tuned_parts(experiment, parts[experiment.name], archive)
            for experiment in experiments
        }
        for name, part in tuned.items():
            parts[name] |= part
        maker.make([run for part in tuned.values() for runs in part.values() for run in runs])
    except KeyboardInterrupt:
        stopped = True
    for experiment in experiments:
        folder = request.folder(out, experiment.name)
        write_parts(folder, parts[experiment.name], archive, curves=bool(experiment.figures))
    if stopped:
        raise Stopped


@dataclass
class _ClientCount:
    """Counts the clients of natural splits, as many as the data in use have."""

    data_dir: Path | None
    watcher: Watcher
    client_counts: dict[ProblemPart, int] = field(default_factory=dict)

    def fill(self, runs: Sequence[StudyRun]) -> list[StudyRun]:
        """The runs with their number of clients, where none is asked for."""
        return [replace(run, spec=self._filled(run.spec)) for run in runs]

    def _filled(self, spec: Spec) -> Spec:
        asked = spec.as_given or spec
        if asked.fleet.clients is not None or not is_natural(required(spec.problem.split)):
            return spec
        if spec.problem not in self.client_counts:
            with self.watcher.decoding(spec.problem.dataset) as on_image:
                data = load_data(spec.problem, self.data_dir, on_image)
            self.client_counts[spec.problem] = data.traits.clients_by(required(spec.problem.split))
        return make(spec, {"clients": self.client_counts[spec.problem]})
