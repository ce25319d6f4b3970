"""Table 1 for `favano reproduce`: computed in seconds, nothing is run."""

from __future__ import annotations

from pathlib import Path

from favano.cli.shell import print_sheet
from favano.report.complexity import TITLE, formula_sheet, number_sheets, write_complexity_readme
from favano.report.sheet import tables
from favano.studies.paper.table_1 import FLEETS, FORMULAS, NAMES, NOTE, write_table_1


def complexities(folder: Path, command: str, *, quiet: bool) -> dict[str, object]:
    """Write the table and a page beside it, print it, and return it for programs."""
    write_table_1(folder)
    found = [formula_sheet(FORMULAS, NAMES)]
    found += number_sheets(folder / "table.csv", NAMES, FLEETS, NOTE)
    write_complexity_readme(folder / "README.md", found, command)
    if not quiet:
        for sheet in found:
            print_sheet(sheet)
    return {"title": TITLE, "folder": str(folder), "tables": tables(found), "runs": []}
