"""`favano verify`: prove a result by checking its files and repeating its runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from favano.cli.flags import DataDir, Trust
from favano.cli.shell import keep_to, notes, screen, trusted
from favano.results import collect
from favano.run.progress import ProgressBar

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="a result, or a folder of results")]
Chain = Annotated[
    bool, typer.Option("--chain", help="only check digests: repeat nothing, execute nothing")
]
FromCheckpoints = Annotated[
    bool, typer.Option("--from-checkpoints", help="repeat only what follows the oldest checkpoints")
]
_WRONG, _NOT_PROVED = 1, 3


def verify_command(
    folder: Folder,
    chain: Chain = False,
    from_checkpoints: FromCheckpoints = False,
    data_dir: DataDir = None,
    trust: Trust = None,
) -> None:
    """Repeat the runs of a result, and compare all that its files state.

    Names the first row that differs, and what is not covered. The exit code is 0 if all else is
    proved to the bit, 1 if something is wrong, and 3 if numbers are close but not proved: the
    result names another processor, PyTorch or kernels, or a GPU, so its bits need not be the same.
    """
    results = collect([folder])
    if all(result.keys.get("device", "cpu") == "cpu" for result in results):
        keep_to("cpu")
    from favano.run.problem import Problem
    from favano.run.verification import verify

    files = trusted(trust)
    with ProgressBar(notes) as progress:
        verdicts = verify(
            folder,
            Problem(data_dir=data_dir),
            trust=files,
            chain_only=chain,
            from_checkpoints=from_checkpoints,
            progress=progress,
        )
    several = len({verdict.path for verdict in verdicts}) > 1
    for verdict in verdicts:
        inside = verdict.path.is_relative_to(folder)  # the runs of a table are beside its folder
        path = verdict.path.relative_to(folder) if inside else verdict.path
        place = f"{path}: {verdict.method}, " if several else ""
        what = "files" if verdict.seed is None else f"seed {verdict.seed}"
        screen.print(f"{place}{what}: {verdict.words}", soft_wrap=True)
    if left_out := dict.fromkeys(word for verdict in verdicts for word in verdict.not_covered):
        screen.print(f"Not covered: {'; '.join(left_out)}", soft_wrap=True)
    outcomes = {verdict.outcome for verdict in verdicts}
    if "wrong" in outcomes or "not proved" in outcomes:
        raise typer.Exit(_WRONG if "wrong" in outcomes else _NOT_PROVED)
