"""The final table for the screen."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING

from favano.report.cells import cells, columns
from favano.report.result import Result
from favano.report.table import final_lines, reference

if TYPE_CHECKING:
    from rich.table import Table


def final_table(results: Sequence[Result], title: str = "") -> Table:
    """Last numbers of each result of one setting, in 80 columns for a handful of algorithms.

    Numbers are never cut; where it gets narrow the names give way.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=SIMPLE_HEAD,
        show_edge=False,
        title=Text(title, style="bold") if title else None,
        title_justify="left",
        padding=(0, 0),
        caption="mean ± standard deviation over seeds; (number of paired seeds)",
        caption_justify="left",
    )
    table.add_column("algorithm", overflow="fold")
    against, headings = reference(results), columns(results)
    for heading in headings.values():
        table.add_column(Text(fill(heading, 9)), justify="right", no_wrap=True)
    for line in final_lines(results):
        name = Text(line.result.title)
        if line.result.status != "complete":
            name.append(f" {line.result.status}", style="bold yellow")
        words = cells(line, against)
        table.add_row(name, *(Text(words[key]) for key in headings))
    return table
