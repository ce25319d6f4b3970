"""`favano report`: one self-contained page from result folders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from favano.cli.shell import TARGET_TEXT, print_costs, screen
from favano.records.folder import PAGE
from favano.report import by_setting, final_table, sentence, title_of, write_page
from favano.report.caveats import digest_sentences
from favano.report.page import DIGESTS_AGREE
from favano.results import collect

Folders = Annotated[list[Path], typer.Argument(metavar="DIR...", help="result folders")]
Page = Annotated[Path, typer.Option(metavar="FILE", help="the page")]
Target = Annotated[float | None, typer.Option(help=TARGET_TEXT)]
Title = Annotated[str | None, typer.Option(help="its title [default: methods and data]")]


def report_command(
    folders: Folders, out: Page = Path(PAGE), title: Title = None, target: Target = None
) -> None:
    """Write one HTML page, which opens offline, from result folders."""
    results = collect(folders)
    write_page(results, out, title=title or title_of(results), target=target)
    for setting in by_setting(results):
        screen.print(final_table(setting.results, setting.title, width=screen.width))
        print_costs(setting.results, target)
        screen.print(sentence(setting.results), "", sep="\n", soft_wrap=True)
    screen.print(*(digest_sentences(results) or [DIGESTS_AGREE]), sep="\n", soft_wrap=True)
    screen.print(f"Report: {out}", soft_wrap=True)
