"""What `run`, `compare` and `demo` share: train what is not done, keep it, and say how it ended."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from favano.cli.progress import TerminalProgress, counting
from favano.cli.shell import INTERRUPTED, called_as, keep_to, notes
from favano.planning.planned import check_plan
from favano.records import worst
from favano.run.outcome import diverged_runs, read_wrongly
from favano.run.result_folder import (
    check_folder,
    is_finished,
    read_summary,
    write_result,
)
from favano.specification.config import spec_keys
from favano.specification.spec import Spec

if TYPE_CHECKING:
    from favano.run.result import Result

Force = Annotated[bool, typer.Option("--force", help="repeat what is already done")]


def train(
    specs: Sequence[Spec], folders: Sequence[Path], data_dir: Path | None, *, force: bool
) -> None:
    """Run what its folder does not hold yet, and write it; leave if a run was cut short."""
    for spec, folder in zip(specs, folders, strict=True):
        check_plan(spec)
        check_folder(folder, spec)
    missing: dict[Path, Spec] = {}
    for spec, folder in zip(specs, folders, strict=True):
        if not force and is_finished(folder):
            _say(f"already done: {folder} holds this run; --force repeats it")
        else:
            missing[folder] = spec
    if missing:
        _keep(_results(list(missing.values()), data_dir), list(missing))


def _results(specs: Sequence[Spec], data_dir: Path | None) -> list[Result]:
    keep_to(specs[0].run.device)
    from favano.run.runner import run_together
    from favano.run.samples import load_samples, named_model

    with counting(notes, f"decoding {specs[0].problem.dataset}, once") as on_image:
        samples = load_samples(specs[0], data_dir, on_image)
    with TerminalProgress(notes) as progress:
        return run_together(specs, samples, named_model(specs[0], samples), progress=progress)


def _keep(results: Sequence[Result], folders: Sequence[Path]) -> None:
    """Write results; leave with a message if one was cut short."""
    kept = set()
    for result, folder in zip(results, folders, strict=True):
        if result.status == "partial" and is_finished(folder):
            kept.add(folder)
        else:
            write_result(folder, result, called_as())
        if sentence := read_wrongly(result.runs):
            _say(sentence)
    for result, folder in zip(results, folders, strict=True):
        if result.status == "partial":
            where = f"partial results are in {folder}"
            if folder in kept:
                where = f"{folder} keeps the complete result of before"
            _say(f"{result.error or 'interrupted'}; {where}")
            raise typer.Exit(1 if result.error else INTERRUPTED)


def end(folders: Sequence[Path]) -> None:
    """Name the runs that diverged; where there are any, the command failed."""
    failed = False
    for folder in folders:
        if sentence := diverged_runs(read_summary(folder).runs):
            _say(f"{sentence}; results are in {folder}")
            failed = True
    if failed:
        raise typer.Exit(1)


def json_document(specs: Sequence[Spec], folders: Sequence[Path]) -> dict[str, object]:
    """The document of `run` and `compare`, from result folders."""
    summaries = [read_summary(folder) for folder in folders]
    tables = [spec_keys(spec) for spec in specs]
    common = {
        key: value for key, value in tables[0].items() if all(t.get(key) == value for t in tables)
    }
    if len(specs) > 1:
        common["algorithms"] = [spec.name for spec in specs]
    return {
        "status": worst(summary.status for summary in summaries),
        "spec": common,
        "runs": [run for summary in summaries for run in summary.runs],
    }


def _say(sentence: str) -> None:
    notes.print(f"favano: {sentence}", soft_wrap=True, markup=False)
