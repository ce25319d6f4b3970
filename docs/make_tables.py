"""Writes the tables of the documentation from result files; with --check it only compares.

python docs/make_tables.py [--check] [--pictures]

With --pictures it also draws the pictures of `results/` anew, from the CSV files there.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import federation_tables
import fleet_tables
import scaling_tables
import speed_tables

from favano.records import Entry, read_ledger
from favano.report.complexity import formula_sheet, number_sheets
from favano.report.paper_comparison import (
    beside_paper,
    chosen_rates,
    cost_sentence,
    leads,
    other_readings,
)
from favano.report.reproduction import draw, read_facts, readme
from favano.report.sheet import Sheet, markdown
from favano.report.wording import percent
from favano.studies.catalogue import EXPERIMENTS
from favano.studies.experiment import Experiment
from favano.studies.natural import NATURAL
from favano.studies.paper.table_1 import FLEETS, FORMULAS, NAMES, NOTE

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"
PAGES = (
    ROOT / "README.md", DOCS / "explanation" / "theory.md",
    DOCS / "how-to" / "running-a-federation.md", DOCS / "how-to" / "large-runs.md",
    REFERENCE / "fleets-study.md", REFERENCE / "performance.md", REFERENCE / "reproduction.md",
)  # fmt: skip
TABLE_2 = EXPERIMENTS["table-2"]
FIGURES = ("figure-mnist", "figure-mnist-slow", "figure-cifar10", "figure-tinyimagenet",
           "figure-quantisation")  # fmt: skip


def ledger(name: str, part: str) -> list[Entry]:
    """The runs of one part of a table or figure."""
    return read_ledger(RESULTS / name / f"{part}.csv")


def experiment(folder: str) -> Experiment | None:
    """What a folder of results belongs to: the longest name that it begins with."""
    names = [name for name in EXPERIMENTS if f"{folder}-".startswith(f"{name}-")]
    return EXPERIMENTS[max(names, key=len)] if names else None


def made(name: str, results: Path = RESULTS) -> list[str]:
    """The folders of a figure, the one with the fewest changes to the paper's first."""
    there = sorted(path.parent.name for path in results.glob("*/runs.csv"))
    folders = [folder for folder in there if (known := experiment(folder)) and known.name == name]
    return sorted(folders, key=len)


def changed(name: str) -> str:
    """What is not as the paper, or our experiment, has it, in one sentence."""
    words = {"- not the paper's: ": "Not as in the paper: ", "- changed: ": "Changed: "}
    lines = (RESULTS / name / "README.md").read_text(encoding="utf-8").splitlines()
    for mark, word in words.items():
        for line in lines:
            if line.startswith(mark):
                return word + line.removeprefix(mark)
    return ""


def missing(name: str, part: str, how: str = "") -> str:
    """What stands in the place of a result that nobody has made."""
    return f"Missing: `results/{name}/{part}.csv`; `favano reproduce {name}{how}` makes it."


def complexities() -> str:
    """Formulas of Table 1, and what they come to for the paper's fleets."""
    parts = [markdown(formula_sheet(FORMULAS, NAMES))]
    for sheet in number_sheets(RESULTS / "table-1" / "table.csv", NAMES, FLEETS, ""):
        parts += [f"{sheet.title}:", markdown(sheet)]
    return "\n\n".join([*parts, NOTE])


def table() -> str:
    """The paper's number, ours, and the difference in standard deviations of the paper."""
    runs = ledger("table-2", "runs")
    return markdown(beside_paper("", runs, TABLE_2.lines, TABLE_2.columns, TABLE_2.paper))


def lead() -> str:
    """FAVANO against each of the others, seed by seed."""
    return markdown(leads("", ledger("table-2", "runs"), TABLE_2.lines, TABLE_2.columns))


def readings(study: Experiment = TABLE_2, folder: str = TABLE_2.name) -> str:
    """Ours alone, for readings of which the paper has no number."""
    entries = ledger(folder, "readings")
    texts = {name: reading.text for name, reading in study.readings.items()}
    sheet = markdown(other_readings(entries, texts, study.lines, study.columns))
    lacking = [f"`{name}`" for name in texts if name not in {entry.reading for entry in entries}]
    return f"{sheet}\n\nNot run yet: {', '.join(lacking)}." if lacking else sheet


def tuned() -> str:
    """The rates chosen for every method, the table with them, and FAVANO's lead in it."""
    tried, tuned = ledger("table-2", "tuning"), ledger("table-2", "tuned")
    if not tuned:
        return missing("table-2", "tuned", " --tune")
    names, columns = TABLE_2.lines, TABLE_2.columns
    sheets = (
        chosen_rates(tried, names, columns),
        beside_paper("", tuned, names, columns, TABLE_2.paper),
        leads("", tuned, names, columns),
    )
    return "\n\n".join(markdown(sheet) for sheet in sheets)


def plan() -> str:
    """How much the fast clients weigh by each method's schedule, without any training."""
    with (RESULTS / "plan" / "shares.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    rows = [["fair", f"{percent(float(lines[0]['fair']))} %", ""]]
    for row in lines:
        weight, low, high, fair = (float(row[key]) for key in ("weight", "low", "high", "fair"))
        favoured = "fast" if weight > fair else "slow"
        verdict = "no significant bias" if low <= fair <= high else f"favours {favoured} clients"
        interval = f"[{percent(low)}, {percent(high)}]"
        rows.append([row["method"], f"{percent(weight)} % {interval}", verdict])
    first = "`favano plan --dataset mnist --fast-fraction 1/9`"
    return markdown(Sheet("", [first, "fast clients' weight", "verdict"], rows))


def figures(names: Sequence[str] = FIGURES) -> str:
    """The final accuracies, the tuned rates and the picture of every figure that was made."""
    parts = []
    for name in names:
        parts.append(f"**{EXPERIMENTS[name].title}** (`{name}`)")
        drawn = [part for folder in made(name) for part in figure(name, folder)]
        parts += drawn or [missing(name, "runs")]
    return "\n\n".join(parts)


def figure(name: str, folder: str) -> list[str]:
    """What was made of a figure in one folder."""
    study, runs = EXPERIMENTS[name], ledger(folder, "runs")
    others, tried = ledger(folder, "readings"), ledger(folder, "tuning")
    parts = [*filter(None, [changed(folder)])]
    parts.append(markdown(beside_paper("", runs, study.lines, study.columns, study.paper)))
    parts += [readings(study, folder)] if others else []
    parts += [markdown(chosen_rates(tried, study.lines, study.columns))] if tried else []
    parts += [
        f"![{study.title}](../../results/{folder}/{picture}.png)"
        for picture in study.figures
        if (RESULTS / folder / f"{picture}.png").exists()
    ]
    return [*parts, cost_sentence([*runs, *others, *tried])]


TABLES: Mapping[str, Callable[[], str]] = {
    "table-1": complexities,
    "table-2": table,
    "leads": lead,
    "readings": readings,
    "tuned": tuned,
    "plan": plan,
    "figures": figures,
    "natural": partial(figures, [study.name for study in NATURAL]),
    **speed_tables.TABLES,
    **scaling_tables.TABLES,
    **federation_tables.TABLES,
    **fleet_tables.TABLES,
}


def filled(page: Path) -> str:
    """The page with its tables made anew."""
    text = page.read_text(encoding="utf-8")
    for name, make in TABLES.items():
        begin, end = f"<!-- {name}: made by docs/make_tables.py -->", f"<!-- end of {name} -->"
        if begin in text:
            before, rest = text.split(begin)
            _, after = rest.split(end)
            text = f"{before}{begin}\n\n{make()}\n\n{end}{after}"
    return text


def pages() -> dict[Path, str]:
    """Every page with tables, as it should be."""
    pages = {page: filled(page) for page in PAGES}
    for folder in sorted(RESULTS.iterdir()):
        study = experiment(folder.name)
        if study and (folder / "README.md").exists():
            pages[folder / "README.md"] = readme(folder, study, read_facts(folder))
    return pages


def draw_pictures() -> None:
    """Every picture of `results/`; the PDF files beside them are not kept in the repository."""
    for ledger in sorted(RESULTS.glob("*/runs.csv")):
        if study := experiment(ledger.parent.name):
            draw(ledger.parent, study)


def main() -> int:
    """Write the pages, or say which of them differ."""
    if "--pictures" in sys.argv[1:]:
        draw_pictures()
    check, different = "--check" in sys.argv[1:], False
    for page, text in pages().items():
        if text == page.read_text(encoding="utf-8"):
            continue
        different = True
        if check:
            name = page.relative_to(ROOT)
            sys.stderr.write(
                f"{name}: its tables are not those of the result files; run `make docs`\n"
            )
        else:
            page.write_text(text, encoding="utf-8")
    return 1 if check and different else 0


if __name__ == "__main__":
    sys.exit(main())
