"""`favano report`: one self-contained page from result folders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from favano.cli.shell import screen
from favano.report import by_setting, collect, final_table, sentence, title_of, write_page


def report_command(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="result folders")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="the page")] = Path(
        "report.html"
    ),
    title: Annotated[
        str | None, typer.Option("--title", help="its title [default: methods and data]")
    ] = None,
) -> None:
    """Turn result folders into one HTML page that opens offline."""
    results = collect(folders)
    write_page(results, out, title=title or title_of(results))
    for setting in by_setting(results):
        screen.print(final_table(setting.results, setting.title, width=screen.width))
        screen.print(sentence(setting.results), "", sep="\n", soft_wrap=True)
    screen.print(f"Report: {out}", soft_wrap=True)
