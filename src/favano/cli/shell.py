"""What all commands share: where text goes, default folders, and how a command was called."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path

import typer
from rich.console import Console

from favano.methods import source_digest
from favano.planning.comparison import folder_name
from favano.records import to_json
from favano.report.sheet import Sheet, screen_table
from favano.specification.config import spec_keys
from favano.specification.spec import Spec

screen = Console(highlight=False)
notes = Console(stderr=True, highlight=False)

INTERRUPTED = 130


def interruptible(command: Callable[..., None]) -> Callable[..., None]:
    """End with a message when Ctrl-C comes while there is nothing to keep yet."""

    @wraps(command)
    def wrapper(*arguments: object, **options: object) -> None:
        try:
            command(*arguments, **options)
        except (KeyboardInterrupt, RuntimeError) as error:
            # Python wraps what is raised while a class is made, as in an import.
            if not isinstance(error.__cause__ or error, KeyboardInterrupt):
                raise
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
    text = json.dumps(
        [{**spec_keys(spec), "source": source_digest(spec.method)} for spec in specs],
        sort_keys=True,
    )
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return (
        Path("favano-results")
        / f"{folder_name(kind)}-{specs[0].problem.dataset.replace('/', '-')}-{digest}"
    )


def print_sheet(sheet: Sheet) -> None:
    """A table with its title and note on the screen."""
    screen.print(sheet.title, style="bold", markup=False)
    screen.print(screen_table(sheet))
    screen.print(f"{sheet.note}\n", markup=False)


def print_json(document: object) -> None:
    """One JSON document on standard output."""
    sys.stdout.write(to_json(document) + "\n")
