"""All that is shown of one table or figure: sheets, sentences and pictures from its folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from favano.records import Entry, entries_from_csv, read_file
from favano.records.ledger import LEDGERS, RUNS
from favano.report.beside import (
    Names,
    Paper,
    beside_paper,
    beside_paper_long,
    chosen_rates,
    cost_sentence,
    leads,
    other_readings,
)
from favano.report.printed import draw_cells, draw_curves
from favano.report.sheet import Sheet, markdown, tables


class Worded(Protocol):
    """Something with words for it."""

    @property
    def text(self) -> str:
        """The words."""


class Layout(Protocol):
    """How a table or figure is laid out; the files of a folder fill it."""

    @property
    def title(self) -> str:
        """One line on what it shows."""

    @property
    def lines(self) -> Names:
        """What is compared, with the names to print."""

    @property
    def columns(self) -> Names:
        """Settings, with their headings."""

    @property
    def paper(self) -> Paper:
        """The paper's mean and standard deviation of a cell."""

    @property
    def figures(self) -> Mapping[str, Sequence[Sequence[tuple[str, str]]]]:
        """A grid of panels (measure, axis) for each picture."""

    @property
    def readings(self) -> Mapping[str, Worded]:
        """Other readings."""

    @property
    def note(self) -> str:
        """What a reader must know beside the numbers."""


def read_ledger(path: Path) -> list[Entry]:
    """The entries of a ledger; nothing where there is none."""
    return read_file(path, entries_from_csv) if path.exists() else []


def sheets(folder: Path, layout: Layout, *, narrow: bool = False) -> list[Sheet]:
    """Every table that the ledgers of a folder give; `narrow` for a terminal."""
    beside = beside_paper_long if narrow and layout.paper else beside_paper
    runs, readings, tuning, tuned = (read_ledger(folder / f"{name}.csv") for name in LEDGERS)
    names, columns = layout.lines, layout.columns
    found = [beside(layout.title, runs, names, columns, layout.paper)]
    methods = "favano" in names
    if methods:
        found.append(leads("FAVANO's lead", runs, names, columns))
    if readings:
        texts = {key: one.text for key, one in layout.readings.items() if _any(readings, key)}
        found.append(other_readings(readings, texts, names, columns))
        for key, text in texts.items():
            those = [entry for entry in readings if entry.reading == key]
            if {"favano", "fedavg"} <= {entry.algorithm for entry in those}:
                about = {entry.column for entry in those}
                those_columns = {key: name for key, name in columns.items() if key in about}
                found.append(leads(f"FAVANO's lead: {text}", those, names, those_columns))
    if tuning:
        found.append(chosen_rates(tuning, names, columns))
    if tuned:
        title = "With every method's rates tuned"
        found.append(beside(title, tuned, names, columns, layout.paper))
        if methods:
            found.append(leads("FAVANO's lead, rates tuned", tuned, names, columns))
    return found


def _any(entries: Sequence[Entry], reading: str) -> bool:
    return any(entry.reading == reading for entry in entries)


def facts(
    folder: Path, command: str, constants: str, scale: float, changes: Mapping[str, str]
) -> dict[str, str]:
    """How the files of a folder were made, what that took, and what to be careful about."""
    entries = _all_entries(folder)
    versions = ", ".join(sorted({entry.version for entry in entries if entry.version}))
    found = {
        "command": f"`{command}`",
        "favano": versions or "nothing was run",
        "cost": cost_sentence(entries),
        "constants": f"{constants} (the paper's experiments: about 10 kg CO2e in all).",
    }
    if scale < 1:
        share = f"{100 * scale:g} % of the simulated time and of the data"
        found["scale"] = f"{share}: a quick look, not to be compared with the paper's numbers."
    if changes:
        others = ", ".join(f"{key} {value}" for key, value in changes.items())
        found["not the paper's"] = f"{others}, in all runs alike."
    return found


def _all_entries(folder: Path) -> list[Entry]:
    entries = [entry for name in LEDGERS for entry in read_ledger(folder / f"{name}.csv")]
    return list({entry.digest: entry for entry in entries}.values())


def document(folder: Path, layout: Layout) -> dict[str, object]:
    """The same for programs: every table, and every run with its numbers."""
    found = tables(sheets(folder, layout))
    runs = [entry._asdict() for entry in _all_entries(folder)]
    return {"title": layout.title, "folder": str(folder), "tables": found, "runs": runs}


def draw(folder: Path, layout: Layout) -> list[Path]:
    """The pictures of a folder as PNG and PDF."""
    runs = read_ledger(folder / f"{RUNS}.csv")
    asked = len({entry.seed for entry in runs})
    paths = []
    if layout.paper or not layout.figures:
        paths += draw_cells(folder, "figure", runs, layout.lines, layout.columns, layout.paper)
    for name, panels in layout.figures.items():
        paths += draw_curves(folder, name, layout.lines, panels, asked)
    return paths


def write_readme(folder: Path, layout: Layout, facts: Mapping[str, str]) -> Path:
    """A page beside the files: how they were made, and every table."""
    path = folder / "README.md"
    path.write_text(readme(folder, layout, facts), encoding="utf-8")
    return path


def read_facts(folder: Path) -> dict[str, str]:
    """How the files of a folder were made, as its page says."""
    lines = read_file(folder / "README.md", str.splitlines)
    pairs = (line[2:].partition(": ") for line in lines if line.startswith("- "))
    return {name: text for name, _, text in pairs}


def readme(folder: Path, layout: Layout, facts: Mapping[str, str]) -> str:
    """The text of that page."""
    lines = [f"# {layout.title}", ""]
    lines += [f"- {name}: {text}" for name, text in facts.items()]
    for picture in sorted(folder.glob("*.png")):
        lines += ["", f"![{layout.title}]({picture.name})"]
    for number, sheet in enumerate(sheets(folder, layout)):
        lines += ["", *([f"## {sheet.title}", ""] if number else []), markdown(sheet)]
    lines += ["", layout.note] if layout.note else []
    return "\n".join(lines) + "\n"
