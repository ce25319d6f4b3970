"""`favano tune`: the same search for every method, on held-out samples and seeds of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from functools import cache, partial
from math import inf, isfinite
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal, TypeAlias, Unpack

from favano.errors import require
from favano.notices import notice
from favano.records import MetricRecord, as_path, best_first, differing, write_together
from favano.results import check_writable
from favano.results.tuning import TRIALS, Trial, Tuning
from favano.run.api import prepare, shown_progress
from favano.run.data import a_fifth
from favano.run.folder_lock import folder_lock
from favano.run.problem import Problem, as_problem
from favano.specification.spec import Spec, required
from favano.studies.archive import Archive
from favano.studies.experiment import StudyRun, make
from favano.studies.footprint import GRAMS_PER_KWH, PUE, machine
from favano.studies.points import axes_of, drawn_points, equal_grids, words
from favano.studies.search import FIRST_SEED, Point, Rung, Search, halving, to_the_end
from favano.studies.tuning import trial_runs

if TYPE_CHECKING:
    from favano.methods import AMethod
    from favano.run.backend import Place, RunTogether
    from favano.run.inputs import RunInputs
    from favano.run.progress import Progress
    from favano.specification.keys import Keys
    from favano.specification.parts import Fleet
    from favano.studies.run_maker import Load, Watcher

How: TypeAlias = Literal["grid", "random", "halving"]
Make: TypeAlias = Callable[[Sequence[StudyRun]], None]
OWN_SEEDS = f"trials have seeds of their own, from {FIRST_SEED} on; remove it"


def tune(
    methods: Sequence[AMethod],
    problem: Problem | str = "digits",
    fleet: Fleet | None = None,
    *,
    grid: Mapping[str, Sequence[object]],
    search: How = "grid",
    trials: int | None = None,
    out: Path | str | None = None,
    progress: Progress | bool | None = None,
    cluster: str | None = None,
    **keys: Unpack[Keys],
) -> Tuning:
    """Tune several methods by the same search; test data and reported seeds have no part.

    Args:
        methods: as in `favano.compare`.
        problem: as in `favano.simulate`. A fifth of the training samples is held out, if neither
            it nor `holdout` says how many.
        fleet: as in `favano.simulate`.
        grid: values by key, for all methods that have it, or by `"LABEL.key"`, for one method.
        search: `grid` tries all values, and points between for methods with fewer; `random` tries
            points that are spread between the smallest and the largest value; `halving` tries all
            for a part of the time, and the best third for three times as long, until the end.
        trials: points of each method, for `random` and, instead of the grid, for `halving`.
        out: a folder for the trials, from which the same call goes on.
        progress: as in `favano.simulate`.
        cluster: as in `favano.simulate`.
        **keys: as in `favano.compare`; `seeds` is the number of seeds of each point, from 1000 on.
    """
    require("seed" not in keys, "seed", keys.get("seed"), OWN_SEEDS)
    asked = dict(keys)
    held_out = int(str(asked.pop("holdout", 0))) or _a_part(as_problem(problem))
    given, data, specs = prepare(
        list(methods), problem, fleet, asked, holdout=held_out, tuned=tuple(grid)
    )
    points, rungs = plan_search(specs, grid, search, trials)
    from favano.run.backend import place
    from favano.run.inputs import RunInputs

    inputs, folder = RunInputs.of(given, data), None if out is None else as_path("out", out)
    with ExitStack() as stack:
        if folder is None:
            folder = Path(stack.enter_context(TemporaryDirectory()))
        else:
            check_writable(folder)
            stack.enter_context(folder_lock(folder))
        there = stack.enter_context(place(cluster))

        def load(spec: Spec, on_image: Callable[[int], None]) -> RunTogether:
            return there.prepare(spec, inputs)

        return tune_specs(
            specs,
            points,
            Search(rungs, held_out, specs[0].run.seeds),
            folder,
            load=load,
            place=there,
            watcher=_Watcher(progress),
            command="favano.tune",
            check=partial(_check_same, inputs=inputs, archive=Archive(folder)),
        )


def _a_part(problem: Problem) -> int:
    """A fifth of the training samples, as many as are held out if nobody says how many."""
    if problem.holdout:
        return problem.holdout
    if problem.is_own:
        from favano.run.own_data import read_data

        return a_fifth(len(read_data(problem).train.targets))
    return a_fifth(len(problem.named_data.train.labels))


def _check_same(runs: Sequence[StudyRun], inputs: RunInputs, archive: Archive) -> None:
    """Refuse trials of a folder that were made with other data, or with other code."""
    from favano.run.own_code import code_of

    there = [run for run in runs if archive.has(run)]
    samples = inputs.samples("cpu") if there else None
    for run in there:
        assert samples is not None
        held = archive.read(run).summary
        rule = "holds trials of other data; choose a new folder"
        require(held.data in (None, samples.digest), "out", archive.out, rule)
        code = code_of(run.spec, samples, inputs.network(run.spec))
        others = ", ".join(differing(held.code or {}, code))
        rule = f"holds trials of another {others}; choose a new folder"
        require(not others, "out", archive.out, rule)


@dataclass(frozen=True)
class _Watcher:
    """Shows the progress that a program asked for."""

    progress: Progress | bool | None

    def beginning(self, missing: int, there: int) -> None:
        """Nothing is shown before the runs."""

    def decoding(self, dataset: str) -> AbstractContextManager[Callable[[int], None]]:
        """The data are there."""
        return nullcontext(lambda total: None)

    def training(self) -> AbstractContextManager[Progress]:
        """As in `favano.simulate`."""
        return shown_progress(self.progress)

    def say(self, sentence: str) -> None:
        """Something that the user should know."""
        notice(sentence)


def tune_specs(
    specs: Sequence[Spec],
    points: Sequence[Sequence[Point]],
    search: Search,
    out: Path,
    *,
    load: Load,
    place: Place,
    watcher: Watcher,
    command: str,
    checkpoint_every: float | None = None,
    check: Make = lambda runs: None,
) -> Tuning:
    """Make the trials that are missing in a folder, and write the table of all."""
    from favano.studies.run_maker import RunMaker

    archive, device = Archive(out), specs[0].run.device
    describe_machine = partial(machine, device, watts=None, pue=PUE, grams_per_kwh=GRAMS_PER_KWH)
    maker = RunMaker(
        archive,
        load,
        cache(lambda: place.call(describe_machine, device)),
        command,
        watcher,
        None,
        checkpoint_every,
        place,
    )

    def make_runs(runs: Sequence[StudyRun]) -> None:
        check(runs)
        maker.make(runs)

    notice(describe(search, len(specs)))
    tuning = run_search(specs, points, search, archive, make_runs)
    write_together(out, {TRIALS: tuning.to_csv()})
    return tuning


def plan_search(
    specs: Sequence[Spec],
    grid: Mapping[str, Sequence[object]],
    how: str,
    trials: int | None,
) -> tuple[list[list[Point]], tuple[Rung, ...]]:
    """The points of each method, as many for each, and the rungs on which they are tried."""
    require(how in ("grid", "random", "halving"), "search", how, "need grid, random or halving")
    require(trials is None or trials >= 2, "trials", trials, "need 2 or more")
    rule = "requires search=random or halving: a grid has as many points as it has"
    require(trials is None or how != "grid", "trials", trials, rule)
    require(trials is not None or how != "random", "trials", "None", "need their number")
    names, axes = [spec.name for spec in specs], axes_of(specs, grid)
    drawn = equal_grids(names, axes) if trials is None else drawn_points(names, axes, trials)
    count = len(drawn[0])
    rule = "need two points or more for each method; nothing is tuned with one"
    require(count > 1, "grid", words(drawn[0][0]), rule)
    for spec, points in zip(specs, drawn, strict=True):
        for point in points:
            make(spec, point)  # bad values are refused before any training
    return drawn, halving(count) if how == "halving" else to_the_end(count)


def describe(search: Search, methods: int) -> str:
    """A search in a sentence."""
    seeds = f"seed {FIRST_SEED}"
    tuned = "" if methods == 1 else f" for each of {methods} methods"
    if search.seeds > 1:
        seeds = f"seeds {FIRST_SEED} to {FIRST_SEED + search.seeds - 1}"
    first, *others = search.rungs
    time = "" if first.time == 1 else f" for 1/{round(1 / first.time)} of the time"
    rest = "".join(
        f", then the best {rung.points} "
        + ("to the end" if rung.time == 1 else f"for 1/{round(1 / rung.time)}")
        for rung in others
    )
    return (
        f"{first.points} points{tuned}{time}{rest}, on {seeds} and "
        f"{search.holdout:,} held-out training samples; test data have no part"
    )


def run_search(
    specs: Sequence[Spec],
    points: Sequence[Sequence[Point]],
    search: Search,
    archive: Archive,
    make_runs: Make,
) -> Tuning:
    """Try all points, rung by rung, each rung of all methods in one pool."""
    starts = [StudyRun("", "", spec) for spec in specs]
    left = [list(of_method) for of_method in points]
    trials: list[Trial] = []
    metric: MetricRecord | None = None
    for number, rung in enumerate(search.rungs):
        asked = [
            (start, point, trial_runs(start, point, search, number, words(point)))
            for start, some in zip(starts, left, strict=True)
            for point in some
        ]
        make_runs([run for _, _, runs in asked for run in runs])
        made = []
        for start, point, runs in asked:
            results = [archive.read(run) for run in runs]
            metric = results[0].leading
            bad = -inf if metric.best == "high" else inf
            values = {
                run.spec.run.seed: _reached(result.final(), result.status, bad)
                for run, result in zip(runs, results, strict=True)
            }
            time = required(runs[0].spec.run.horizon)
            made.append(Trial(start.spec.name, point, number, time, values))
        trials += made
        if rung is not search.rungs[-1]:
            kept = search.rungs[number + 1].points
            left = [_best(made, spec.name, kept, required(metric)) for spec in specs]
    return Tuning(trials, required(metric), search.holdout)


def _reached(final: Sequence[float], status: str, bad: float) -> float:
    whole = status == "complete" and len(final) == 1 and isfinite(final[0])
    return final[0] if whole else bad


def _best(trials: Sequence[Trial], method: str, count: int, metric: MetricRecord) -> list[Point]:
    """The best points of a method on a rung."""
    mine = {trial.key: trial for trial in trials if trial.method == method}
    tried = [(key, 0, value) for key, trial in mine.items() for value in trial.values.values()]
    return [mine[key].point for key, _ in best_first(tried, metric.best)[:count]]
