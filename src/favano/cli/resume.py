"""`favano resume`: go on with a command that was ended before its result was complete."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Annotated

import typer

from favano.cli.flags import Trust
from favano.cli.shell import say, trusted
from favano.cli.training import RESUMED, OnCluster, Track
from favano.errors import require
from favano.records import read_file
from favano.records.folder import RUNS_FOLDER, SUMMARY
from favano.records.resumption import RESUME, Resumption, resumption_from_json
from favano.user_classes import only_trusted

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="folder of the result")]
_COMMANDS = ("run", "compare", "tune", "demo", "reproduce")  # those that leave a note
_TRACK, _CLUSTER, _SAFE = "--track", "--cluster", ("", "auto", "none")


def resume_command(
    folder: Folder,
    cluster: OnCluster = None,
    trust: Trust = None,
    track: Track = None,
) -> None:
    """Go on with the command that was ended in a folder, by a signal, a crash or a full disk.

    The command is in a file of the folder, so a Python file that it names is executed only if it
    is given by --trust, a tracker is written only if it is given by --track, and the result is
    written into this folder and nowhere else.
    """
    path, files = folder.absolute(), trusted(trust)
    if not (path / RESUME).exists():
        results = (
            path.glob(pattern)
            for pattern in (SUMMARY, f"*/{SUMMARY}", f"{RUNS_FOLDER}/*/{SUMMARY}")
        )
        require(any(map(any, results)), "folder", folder, "holds no run that could go on")
        from favano.run.stored_result import read_statements

        read_statements(folder, execute=False)  # missing or damaged files are refused
        say(f"already done: {folder}")
        return
    from favano.cli.commands import make_app

    link = next(_links(path), None)
    rule = f"holds a link, {link}, by which another folder would be written; give its command again"
    require(link is None, "folder", folder, rule)
    asked = read_file(path / RESUME, resumption_from_json)
    _check_command(folder, asked, cluster)
    _check_trackers(folder, asked, track or [])
    rule = f"its command was given in {asked.folder}, which is not there any more"
    require(Path(asked.folder).is_dir(), "folder", folder, rule)
    if asked.data is not None:
        os.environ["FAVANO_DATA"] = asked.data
    with chdir(asked.folder), only_trusted(files):
        sys.argv[1:] = asked.command
        same = Path(asked.out).absolute() == path
        there = ["--out", asked.out if same else str(path)]  # whatever the command says
        there += [] if cluster is None else [_CLUSTER, cluster]
        before = RESUMED.set(True)
        try:
            make_app(asked.command)([*asked.command, *there])
        finally:
            RESUMED.reset(before)


def _links(folder: Path) -> Iterator[str]:
    """Names of the links in a folder, and in those below it."""
    for place, folders, files in os.walk(folder):
        paths = (Path(place, name) for name in (*folders, *files))
        yield from (str(path.relative_to(folder)) for path in paths if path.is_symlink())


def _check_command(folder: Path, asked: Resumption, cluster: str | None) -> None:
    """Refuse commands that leave no note, and a cluster of somebody's choice: it executes code."""
    name = asked.command[0] if asked.command else "empty"
    rule = f"its command is {name}; need one of {', '.join(_COMMANDS)}"
    require(name in _COMMANDS, "folder", folder, rule)
    address = next((value for value in _values(asked, _CLUSTER) if value not in _SAFE), None)
    rule = f"its command used a cluster at {address}; if it is yours, add {_CLUSTER} {address}"
    require(cluster is not None or address is None, "folder", folder, rule)


def _check_trackers(folder: Path, asked: Resumption, given: list[str]) -> None:
    """Refuse to write into folders of somebody's choice."""
    named = _values(asked, _TRACK)
    missing = next((word for word in named if word not in given), None)
    rule = f"its command wrote to a tracker; if {missing} is yours, add {_TRACK} {missing}"
    require(missing is None, "folder", folder, rule)
    other = next((word for word in given if word not in named), None)
    require(other is None, "track", other, "the command that goes on had no such tracker")


def _values(asked: Resumption, flag: str) -> list[str]:
    """The values that a command gives to a flag."""
    pairs = zip(asked.command, [*asked.command[1:], ""], strict=True)
    return [
        after if word == flag else word.partition("=")[2]
        for word, after in pairs
        if word.partition("=")[0] == flag
    ]
