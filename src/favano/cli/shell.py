"""What all commands share: where text goes, default folders, and how a command was called."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console

from favano.experiments.records import read_wrongly
from favano.experiments.results import spec_table, write_result
from favano.experiments.spec import Spec
from favano.report.sheet import Sheet, screen_table

if TYPE_CHECKING:
    from favano.experiments.result import Result

screen = Console(highlight=False)
notes = Console(stderr=True, highlight=False)

INTERRUPTED = 130


def interruptible(command: Callable[..., None]) -> Callable[..., None]:
    """End with a message when Ctrl-C comes while there is nothing to keep yet."""

    @wraps(command)
    def wrapper(*arguments: object, **options: object) -> None:
        try:
            command(*arguments, **options)
        except KeyboardInterrupt:
            notes.print("favano: interrupted before anything was measured")
            raise typer.Exit(INTERRUPTED) from None

    return wrapper


def keep_to(device: str) -> None:
    """Hide GPUs from a command that trains on the CPU.

    With one in sight PyTorch cannot be forked once it has computed gradients. A process that has
    loaded PyTorch before is not this command's own, and stays as it is.
    """
    if device == "cpu" and "torch" not in sys.modules:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


def called_as() -> str:
    """The command line, as one would type it again."""
    return shlex.join(["favano", *sys.argv[1:]])


def default_folder(kind: str, specs: list[Spec]) -> Path:
    """A folder of its own for every specification, so that no run overwrites another."""
    text = json.dumps([spec_table(spec) for spec in specs], sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return Path("favano-results") / f"{kind}-{specs[0].dataset.replace('/', '-')}-{digest}"


def keep(results: Sequence[Result], folders: Sequence[Path]) -> None:
    """Write results; leave with a message if one was cut short."""
    for result, folder in zip(results, folders, strict=True):
        write_result(folder, result, called_as())
        if sentence := read_wrongly(result.runs):
            notes.print(f"favano: {sentence}", soft_wrap=True, markup=False)
    for result, folder in zip(results, folders, strict=True):
        if result.error is not None:
            message = f"favano: {result.error}; partial results are in {folder}"
            notes.print(message, soft_wrap=True, markup=False)
            raise typer.Exit(1)
        if result.status == "partial":
            notes.print(f"favano: interrupted; partial results are in {folder}", soft_wrap=True)
            raise typer.Exit(INTERRUPTED)


def print_sheet(sheet: Sheet) -> None:
    """A table with its title and note on the screen."""
    screen.print(sheet.title, style="bold", markup=False)
    screen.print(screen_table(sheet))
    screen.print(f"{sheet.note}\n", markup=False)


def print_json(document: object) -> None:
    """One JSON document on standard output."""
    sys.stdout.write(json.dumps(document) + "\n")


def json_document(results: list[Result]) -> dict[str, object]:
    """The document of `run` and `compare`."""
    specs = [spec_table(result.spec) for result in results]
    common = {
        key: value for key, value in specs[0].items() if all(s.get(key) == value for s in specs)
    }
    if len(results) > 1:
        common["algorithms"] = [result.spec.algorithm for result in results]
    return {"spec": common, "runs": [run for result in results for run in result.runs]}
