"""`favano resume`: go on with a command that was ended before its result was complete."""

from __future__ import annotations

import os
import sys
from contextlib import chdir
from pathlib import Path
from typing import Annotated

import typer

from favano.cli.shell import say
from favano.cli.training import RESUMED, OnCluster
from favano.errors import need
from favano.records import read_file
from favano.records.folder import SUMMARY
from favano.records.resumption import RESUME, resumption_from_json

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="folder of the result")]


def resume_command(folder: Folder, cluster: OnCluster = None) -> None:
    """Go on with the command that was ended in a folder, by a signal, a crash or a full disk."""
    from favano.cli.app import app

    path = folder.absolute()
    if not (path / RESUME).exists():
        results = (path.glob(pattern) for pattern in (SUMMARY, f"*/{SUMMARY}", "runs/*.json"))
        need(any(map(any, results)), "folder", folder, "holds no run that could go on")
        from favano.run.statement import read_statements

        read_statements(folder)  # missing or damaged files are refused
        say(f"already done: {folder}")
        return
    asked = read_file(path / RESUME, resumption_from_json)
    rule = f"its command was given in {asked.folder}, which is not there any more"
    need(Path(asked.folder).is_dir(), "folder", folder, rule)
    if asked.data is not None:
        os.environ["FAVANO_DATA"] = asked.data
    with chdir(asked.folder):
        moved = Path(asked.out).absolute() != path
        sys.argv[1:] = asked.command
        there = ["--out", str(path)] if moved else []
        there += [] if cluster is None else ["--cluster", cluster]
        before = RESUMED.set(True)
        try:
            app([*asked.command, *there])
        finally:
            RESUMED.reset(before)
