"""One table or figure: sheets, sentences and pictures from its folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from favano.records import Entry, read_file, read_ledger
from favano.records.ledger import LEDGERS, RUNS
from favano.report.figure_style import STYLE, save
from favano.report.figures import cells_figure, curves_figure
from favano.report.paper_comparison import (
    Names,
    Paper,
    beside_paper,
    beside_paper_long,
    chosen_rates,
    cost_sentence,
    leads,
    other_readings,
)
from favano.report.sheet import Sheet, markdown, tables


class PaperReading(Protocol):
    """Another reading of the paper's text."""

    @property
    def text(self) -> str:
        """The reading in words."""


class PageLayout(Protocol):
    """The layout of a table or figure, which the files of a folder fill."""

    @property
    def title(self) -> str:
        """What it shows, in one line."""

    @property
    def lines(self) -> Names:
        """The lines by key, with the names to print."""

    @property
    def columns(self) -> Names:
        """The settings by key, with their headings."""

    @property
    def paper(self) -> Paper:
        """The paper's mean and standard deviation for each cell."""

    @property
    def figures(self) -> Mapping[str, Sequence[Sequence[tuple[str, str]]]]:
        """The grid of panels (measure, axis) of each picture."""

    @property
    def readings(self) -> Mapping[str, PaperReading]:
        """Other readings of the paper's text by key."""

    @property
    def note(self) -> str:
        """What a reader must know about the numbers."""

    @property
    def ours(self) -> bool:
        """Whether it is not the paper's."""

    @property
    def about(self) -> Mapping[str, str]:
        """Facts on its data and on published numbers, by name."""


def sheets(folder: Path, layout: PageLayout, *, narrow: bool = False) -> list[Sheet]:
    """Every table from the ledgers of a folder; `narrow` for a terminal."""
    beside = beside_paper_long if narrow and layout.paper else beside_paper
    runs, readings, tuning, tuned = (read_ledger(folder / f"{name}.csv") for name in LEDGERS)
    names, columns = layout.lines, layout.columns
    all_sheets = [beside(layout.title, runs, names, columns, layout.paper)]
    methods = "favano" in names
    if methods:
        all_sheets.append(leads("FAVANO's lead", runs, names, columns))
    if readings:
        made = {entry.reading for entry in readings}
        texts = {key: reading.text for key, reading in layout.readings.items() if key in made}
        all_sheets.append(other_readings(readings, texts, names, columns))
        for key, text in texts.items():
            those = [entry for entry in readings if entry.reading == key]
            if {"favano", "fedavg"} <= {entry.algorithm for entry in those}:
                about = {entry.column for entry in those}
                those_columns = {key: name for key, name in columns.items() if key in about}
                all_sheets.append(leads(f"FAVANO's lead: {text}", those, names, those_columns))
    if tuning:
        all_sheets.append(chosen_rates(tuning, names, columns))
    if tuned:
        title = "With every method's rates tuned"
        all_sheets.append(beside(title, tuned, names, columns, layout.paper))
        if methods:
            all_sheets.append(leads("FAVANO's lead, rates tuned", tuned, names, columns))
    return all_sheets


def facts(
    folder: Path,
    layout: PageLayout,
    command: str,
    constants: str,
    scale: float,
    changes: Mapping[str, str],
) -> dict[str, str]:
    """How the files of a folder were made, at what cost, and what to be careful about."""
    entries = entries_of(folder)
    versions = ", ".join(sorted({entry.version for entry in entries if entry.version}))
    paper = "" if layout.ours else " (the paper's experiments: about 10 kg CO2e in all)"
    about = {
        "command": f"`{command}`",
        "favano": versions or "nothing was run",
        "cost": cost_sentence(entries),
        **({"constants": f"{constants}{paper}."} if constants else {}),
        **layout.about,
    }
    if scale < 1:
        share = f"{100 * scale:g} % of the simulated time and of the data"
        about["scale"] = f"{share}: a quick look, not to be compared with published numbers."
    if changes:
        others = ", ".join(f"{key} {value}" for key, value in changes.items())
        about["changed" if layout.ours else "not the paper's"] = f"{others}, in all runs alike."
    return about


def entries_of(folder: Path) -> list[Entry]:
    """The runs of all ledgers of a folder, each once."""
    entries = [entry for name in LEDGERS for entry in read_ledger(folder / f"{name}.csv")]
    return list({entry.digest: entry for entry in entries}.values())


def document(folder: Path, layout: PageLayout) -> dict[str, object]:
    """Every table, and every run with its numbers, as a JSON document."""
    documents = tables(sheets(folder, layout))
    runs = [entry._asdict() for entry in entries_of(folder)]
    return {"title": layout.title, "folder": str(folder), "tables": documents, "runs": runs}


def draw(folder: Path, layout: PageLayout) -> list[Path]:
    """Draw the pictures of a folder as PNG and PDF."""
    from matplotlib import style

    runs = read_ledger(folder / f"{RUNS}.csv")
    asked = len({entry.seed for entry in runs})
    paths = []
    with style.context(STYLE):
        if layout.paper or not layout.figures:
            figure = cells_figure(runs, layout.lines, layout.columns, layout.paper)
            paths += save(figure, folder, "figure")
        for name, panels in layout.figures.items():
            paths += save(curves_figure(folder, layout.lines, panels, asked), folder, name)
    return paths


def write_readme(folder: Path, layout: PageLayout, facts: Mapping[str, str]) -> Path:
    """Write the README of a folder."""
    path = folder / "README.md"
    path.write_text(readme(folder, layout, facts), encoding="utf-8")
    return path


def read_facts(folder: Path) -> dict[str, str]:
    """The facts of a folder, as its README has them."""
    lines = read_file(folder / "README.md", str.splitlines)
    pairs = (line[2:].partition(": ") for line in lines if line.startswith("- "))
    return {name: text for name, _, text in pairs}


def readme(folder: Path, layout: PageLayout, facts: Mapping[str, str]) -> str:
    """The text of the README: how the files were made, the pictures, and every table."""
    lines = [f"# {layout.title}", ""]
    lines += [f"- {name}: {text}" for name, text in facts.items()]
    for picture in sorted(folder.glob("*.png")):
        lines += ["", f"![{layout.title}]({picture.name})"]
    for number, sheet in enumerate(sheets(folder, layout)):
        lines += ["", *([f"## {sheet.title}", ""] if number else []), markdown(sheet)]
    lines += ["", layout.note] if layout.note else []
    return "\n".join(lines) + "\n"
