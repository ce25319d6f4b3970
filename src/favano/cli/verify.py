"""`favano verify`: prove a result by checking its files and repeating its runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from favano.cli.flags import DataDir
from favano.cli.progress import TerminalProgress
from favano.cli.shell import keep_to, notes, screen
from favano.report import collect

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="a result, or a folder of results")]
Chain = Annotated[bool, typer.Option("--chain", help="check the digests, and repeat nothing")]
FromCheckpoints = Annotated[
    bool, typer.Option("--from-checkpoints", help="repeat only what follows the oldest checkpoints")
]


def verify_command(
    folder: Folder,
    chain: Chain = False,
    from_checkpoints: FromCheckpoints = False,
    data_dir: DataDir = None,
) -> None:
    """Repeat the runs of a result, and name the first row that differs."""
    results = collect([folder])
    if all(result.spec.get("device", "cpu") == "cpu" for result in results):
        keep_to("cpu")
    from favano.run.problem import Problem
    from favano.run.verification import verify

    with TerminalProgress(notes) as progress:
        verdicts = verify(
            folder,
            Problem(data_dir=data_dir),
            chain_only=chain,
            from_checkpoints=from_checkpoints,
            progress=progress,
        )
    several = len({verdict.path for verdict in verdicts}) > 1
    for one in verdicts:
        inside = one.path.is_relative_to(folder)  # the runs of a table are beside its folder
        path = one.path.relative_to(folder) if inside else one.path
        place = f"{path}: {one.method}, " if several else ""
        screen.print(f"{place}seed {one.seed}: {one.words}", soft_wrap=True)
    if not all(verdict.right for verdict in verdicts):
        raise typer.Exit(1)
