"""Table 1 from its CSV file: formulas as printed and corrected, and their values."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from favano.records import Complexity, complexities_from_csv, read_file
from favano.report.paper_comparison import Names
from favano.report.sheet import Sheet, markdown
from favano.report.wording import significant

TITLE = "Complexities in units of time"


def formula_sheet(formulas: Mapping[str, tuple[str, str]], names: Names) -> Sheet:
    """The complexities in server steps, up to numerical constants."""
    rows = [
        [names[method], printed, corrected or "as printed"]
        for method, (printed, corrected) in formulas.items()
    ]
    note = (
        "Corrected where terms of different units are added, and where FAVANO's last term comes "
        "from a learning rate that its proof does not allow; times are these steps times C."
    )
    return Sheet("Server steps to a target ε", ["method", "printed", "corrected"], rows, note)


def number_sheets(path: Path, names: Names, fleets: Names, note: str) -> list[Sheet]:
    """The values of the formulas, one sheet per fleet."""
    lines = read_file(path, complexities_from_csv)
    headings = ["method", "C", "steps, printed", "steps", "time, printed", "time"]
    return [
        Sheet(
            f"Time to the target, {title}",
            headings,
            [
                _row(names.get(line.method, line.method), line)
                for line in lines
                if line.fleet == fleet
            ],
            note,
        )
        for fleet, title in fleets.items()
    ]


def _row(name: str, line: Complexity) -> list[str]:
    steps, times = (
        (line.printed_steps, line.corrected_steps),
        (line.printed_time, line.corrected_time),
    )
    step = significant(line.step_time)
    if line.step_time_error > 0:
        step += f" ± {line.step_time_error:.2g}"
    return [name, step, *map(significant, (*steps, *times))]


def write_complexity_readme(path: Path, sheets: list[Sheet], command: str) -> None:
    """Write the README beside the CSV file."""
    parts = [f"# {TITLE}", f"- command: `{command}`"]
    parts += [f"## {sheet.title}\n\n{markdown(sheet)}" for sheet in sheets]
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
