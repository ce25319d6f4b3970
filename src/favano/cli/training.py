"""What `run`, `compare` and `demo` share: training, writing results, and messages at the end."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from contextvars import ContextVar
from pathlib import Path
from shutil import rmtree
from typing import Annotated

import typer

from favano.cli.progress import decoding
from favano.cli.shell import (
    INTERRUPTED,
    TARGET_TEXT,
    begin_cuda,
    called_as,
    keep_to,
    leave,
    notes,
    say,
    show_traceback,
)
from favano.errors import BadInput, require
from favano.planning.comparison import without_exact_weights
from favano.planning.planned import check_plans
from favano.records import RunRecord, worst
from favano.records.folder import CHECKPOINTS, MODEL, PAGE
from favano.records.resumption import Resumption
from favano.report.metric_words import amount
from favano.report.remarks import remark_sentences
from favano.results import (
    Result,
    check_comparison,
    check_content,
    check_folder,
    earlier_results,
    is_finished,
    is_longer,
    read_result,
    write_result,
)
from favano.run.folder_lock import FolderLock
from favano.run.listeners import Listener, check_here, listening
from favano.run.live_page import beginning, live_page
from favano.run.progress import ProgressBar
from favano.run.trackers import check_trackers, trackers
from favano.specification.config import spec_keys
from favano.specification.presets import resolve
from favano.specification.spec import Spec

Force = Annotated[bool, typer.Option("--force", help="repeat runs, done or not, from the start")]


def _seconds(value: float | None) -> float | None:
    """Refuse NaN, which no comparison finds too small."""
    require(value is None or value >= 0, "checkpoint_every", value, "need a number >= 0")
    return value


CheckpointEvery = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        callback=_seconds,
        help="between checkpoints; 0: each evaluation [30, at a cost < 2 %]",
    ),
]


def _share(value: float | None) -> float | None:
    """Refuse what no accuracy can be, before anything is trained."""
    rule = "need an accuracy as a share of one, as 0.8"
    require(value is None or 0 < value <= 1, "target", value, rule)
    return value


Target = Annotated[float | None, typer.Option(metavar="SHARE", callback=_share, help=TARGET_TEXT)]
OnCluster = Annotated[
    str | None,
    typer.Option("--cluster", metavar="auto|ADDRESS|none", help="spread runs over GPUs or nodes"),
]


def _known(words: list[str] | None) -> list[str]:
    """Refuse unknown trackers before anything is read."""
    return check_trackers(words)


Track = Annotated[
    list[str] | None,
    typer.Option(
        "--track",
        metavar="KIND:DIR",
        callback=_known,
        help="write to tensorboard:DIR, wandb:DIR or mlflow:DIR, too",
    ),
]
Live = Annotated[bool, typer.Option("--live", help="show a page of the results so far")]
RESUMED = ContextVar("RESUMED", default=False)  # whether `favano resume` calls the command


def train(
    specs: Sequence[Spec],
    folders: Sequence[Path],
    data_dir: Path | None,
    *,
    out: Path,
    force: bool,
    every: float | None = None,
    cluster: str | None = None,
    track: Sequence[str] | None = None,
    live: bool = False,
    target: float | None = None,
) -> None:
    """Run what is not done yet, and write it; exit if a run did not reach its end.

    Args:
        specs: the runs.
        folders: of their results.
        data_dir: folder of data sets.
        out: the folder of all results.
        force: repeat what is done.
        every: seconds between two checkpoints.
        cluster: where to run; None: on this machine.
        track: trackers that get the evaluations, too.
        live: serve a page of the results so far.
        target: the metric to reach, on that page.
    """
    tracked = check_trackers(track, cluster)
    check_here("live", live, cluster)
    if out not in folders:
        check_comparison(out)
    _kept = check_plans(specs)  # so that nothing is planned twice
    for spec, folder in zip(specs, folders, strict=True):
        check_folder(folder, spec)
    missing: dict[Path, Spec] = {}
    for spec, folder in zip(specs, folders, strict=True):
        if not force and is_finished(folder) and not is_longer(folder, spec):
            read_result(folder)  # refused before a word is said if it is damaged
            say(f"already done: {folder} holds a run with these settings; --force repeats it")
        else:
            missing[folder] = spec
    if not missing:
        return
    for words in without_exact_weights(missing.values()):
        say(words)
    with FolderLock(out, asked(out)):
        for folder in missing if force and not RESUMED.get() else ():
            rmtree(folder / CHECKPOINTS, ignore_errors=True)
        keep_to(specs[0].run.device)
        if cluster in (None, "none"):
            begin_cuda(specs[0].run.device)
        earlier = {} if force else earlier_results(missing)
        failed: BadInput | None = None
        listeners = trackers(tracked, specs)
        with ExitStack() as during:
            if live:
                shown = _shown(dict(zip(folders, specs, strict=True)), missing, earlier)
                listeners += during.enter_context(live_page(shown, str(out / PAGE), say, target))
            try:
                results = _results(missing, data_dir, every, cluster, listeners, earlier)
            except BadInput as error:
                if not error.results:  # before anything was measured
                    raise
                results, failed = error.results, error
        if not force:
            for result, folder in zip(results, missing, strict=True):
                check_content(folder, result.summary)
        _keep(results, list(missing), out, failed)


def _shown(
    specs: Mapping[Path, Spec], missing: Mapping[Path, Spec], earlier: Mapping[int, Result]
) -> list[Result]:
    """The results of these folders, without the runs to come."""
    before = {folder: earlier.get(number) for number, folder in enumerate(missing)}
    return [
        beginning(before[folder] or Result.of(resolve(spec)))
        if folder in missing
        else read_result(folder)
        for folder, spec in specs.items()
    ]


def asked(out: Path) -> Resumption:
    """This command, as `favano resume` will repeat it."""
    data = os.environ.get("FAVANO_DATA")
    return Resumption(tuple(sys.argv[1:]), str(Path.cwd()), str(out), data)


def _results(
    missing: Mapping[Path, Spec],
    data_dir: Path | None,
    every: float | None,
    cluster: str | None,
    listeners: Sequence[Listener],
    earlier: Mapping[int, Result],
) -> list[Result]:
    specs = list(missing.values())
    from favano.run.backend import place
    from favano.run.checkpoints import Checkpoints

    checkpoints = Checkpoints([folder / CHECKPOINTS for folder in missing], every, say)
    with place(cluster) as there:
        with decoding(specs[0].problem.dataset) as on_image:
            run_together = there.load(specs[0], data_dir, on_image)
        with listening(listeners) as observer, ProgressBar(notes) as progress:
            return run_together(
                specs,
                progress=progress,
                checkpoints=checkpoints,
                earlier=earlier,
                on_evaluate=observer,
            )


def _keep(
    results: Sequence[Result], folders: Sequence[Path], out: Path, failed: BadInput | None
) -> None:
    """Write results; exit with a message if a run did not reach its end."""
    stopped, kept = [], []
    for result, folder in zip(results, folders, strict=True):
        status = result.summary.status
        if status == "partial" and is_finished(folder):
            kept.append(folder)
        else:
            write_result(folder, result, called_as())
        if sentence := _read_wrongly(result.runs):
            say(sentence)
        if status == "partial":
            stopped.append(result.error)
    if not stopped:
        return
    where = f"partial results are in {out}"
    if len(kept) == len(stopped):
        names = " and ".join(map(str, kept))
        where = f"{names} {'keeps its' if len(kept) == 1 else 'keep their'} earlier complete result"
    if failed is not None:
        show_traceback(failed)
        leave(f"{failed}; {where}", 2)
    leave(f"{stopped[0] or 'interrupted'}; {where}", 1 if stopped[0] else INTERRUPTED)


def end(folders: Sequence[Path]) -> None:
    """Name the results that diverged; if there are any, exit with an error."""
    failed = [result for result in map(read_result, folders) if result.status == "diverged"]
    for result in failed:
        say(f"{result.name} {'; '.join(result.remarks)}; results are in {result.folder}")
    if failed:
        raise typer.Exit(1)


def say_kept(folders: Sequence[Path]) -> None:
    """Say which models are in the files, if they are not the last ones."""
    for result in map(read_result, folders):
        if result.keeps_best:
            metric = result.leading
            best = ", ".join(
                f"seed {seed} at time {row.time:g} ({amount(metric, row.value(metric.name))})"
                for seed, row in result.kept.items()
            )
            say(
                f"{result.name}: {MODEL} holds the best models by {metric.name} on "
                f"{result.keys['holdout']} held-out training samples: {best}"
            )


def json_document(specs: Sequence[Spec], folders: Sequence[Path]) -> dict[str, object]:
    """The JSON document of `run` and `compare`, from result folders."""
    results = [read_result(folder) for folder in folders]
    summaries = [result.summary for result in results]
    tables = [spec_keys(spec) for spec in specs]
    common = {
        key: value for key, value in tables[0].items() if all(t.get(key) == value for t in tables)
    }
    if len(specs) > 1:
        common["algorithms"] = [spec.name for spec in specs]
    return {
        "status": worst(summary.status for summary in summaries),
        "spec": common,
        "remarks": remark_sentences(results),
        "runs": [run for summary in summaries for run in summary.runs],
    }


def _read_wrongly(runs: Sequence[RunRecord]) -> str | None:
    """A sentence about messages beyond the radius of the lattice, if there were any."""
    wrapped = sum(run.decoding_failures for run in runs)
    if not wrapped:
        return None
    return (
        f"{runs[0].algorithm}: {wrapped} messages lay beyond the radius of the lattice and were "
        "decoded wrongly; a larger codec_scale or more codec_bits prevents this"
    )
