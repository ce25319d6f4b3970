"""`favano replay`: a federation's trace in the simulator, and how far the models are apart."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from favano.cli.flags import DataDir, Json, Trust
from favano.cli.shell import notes, print_json, screen, trusted

Folder = Annotated[Path, typer.Argument(metavar="TRACE", help="folder of the federation")]


def replay_command(
    folder: Folder, data_dir: DataDir = None, json: Json = False, trust: Trust = None
) -> None:
    """Repeat a federation in the simulator: same contacts, same steps, and the same model?

    With clients on this kind of machine the models are equal to the bit; other processors round
    otherwise. If the models differ, the exit code is 1.
    """
    from favano.run.replay import replay_folder

    files = trusted(trust)
    with notes.status("training again"):
        outcome = replay_folder(folder, data_dir, files)
    if json:
        print_json(asdict(outcome))
    elif outcome.equal:
        screen.print("The models are equal to the bit.")
    else:
        screen.print(
            f"The models differ in {outcome.numbers:,} numbers, by {outcome.largest:.3g} at most.",
            soft_wrap=True,
        )
    if not outcome.equal:
        raise typer.Exit(1)
