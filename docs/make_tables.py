"""Writes the tables of the documentation from `results/`; with --check it only compares.

python docs/make_tables.py [--check]
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from statistics import mean, stdev

ROOT = Path(__file__).parent.parent
PAGES = (ROOT / "README.md", ROOT / "docs" / "reproduction.md")

COLUMNS = {
    "iid": "IID",
    "non-iid-2/3-fast": "non-IID, 2/3 fast",
    "non-iid-1/9-fast": "non-IID, 1/9 fast",
}
NAMES = {"fedavg": "FedAvg", "quafl": "QuAFL", "fedbuff": "FedBuff", "favano": "FAVANO"}
PAPER = {  # mean and standard deviation over 10 runs, Table 2 of the paper
    "fedavg": ((93.4, 0.3), (38.7, 7.7), (44.8, 6.9)),
    "quafl": ((92.3, 0.9), (40.7, 6.7), (45.5, 4.0)),
    "fedbuff": ((96.0, 0.1), (85.1, 3.2), (67.3, 5.5)),
    "favano": ((95.1, 0.1), (88.9, 0.9), (87.3, 2.3)),
}


READINGS = {
    "favano-deterministic": "FAVANO, deterministic weights E[min(E, K)]",
    "favano-literal": "FAVANO, E[min(Geom(λ), K)] read literally: 2 fast, 11.6 slow",
    "favano-none": "FAVANO without reweighting",
    "favano-delta": "FAVANO-delta (not in the paper)",
    "fedbuff-reset-0.2": "FedBuff `reset`, client step 0.2, server step 1",
}


def accuracies(folder: str) -> dict[tuple[str, str], list[float]]:
    """Final accuracy in per cent of every seed, by method and column."""
    found: dict[tuple[str, str], list[float]] = {}
    with (ROOT / "results" / folder / "runs.csv").open() as file:
        for row in csv.DictReader(file):
            key = row["algorithm"], row["column"]
            found.setdefault(key, []).append(100 * float(row["accuracy"]))
    return found


def readings() -> str:
    """Ours alone, for readings of which the paper has no number."""
    found = accuracies("readings")
    lines = [
        "| reading | " + " | ".join(COLUMNS.values()) + " |",
        "|---" * (1 + len(COLUMNS)) + "|",
    ]
    for reading, name in READINGS.items():
        cells = [found.get((reading, column), []) for column in COLUMNS]
        shown = [f"{mean(c):.1f} ± {stdev(c):.1f}" if len(c) > 1 else "missing" for c in cells]
        lines.append(f"| {name} | " + " | ".join(shown) + " |")
    seeds = min(len(values) for values in found.values())
    return "\n".join([*lines, "", f"Final test accuracy in %, mean ± sd over {seeds} seeds."])


def table() -> str:
    """The paper's number, ours, and the difference in standard deviations of the paper."""
    found = accuracies("table-2")
    head = [f"{name}: paper | ours | difference" for name in COLUMNS.values()]
    lines = ["| method | " + " | ".join(head) + " |", "|---" * (1 + 3 * len(COLUMNS)) + "|"]
    for method, name in NAMES.items():
        cells = []
        for column, (paper, spread) in zip(COLUMNS, PAPER[method], strict=True):
            ours = found.get((method, column), [])
            if len(ours) < 2:
                cells.append(f"{paper} ± {spread} | missing | ")
                continue
            gap = (mean(ours) - paper) / spread
            measured = f"**{mean(ours):.1f} ± {stdev(ours):.1f}**"
            cells.append(f"{paper} ± {spread} | {measured} | {gap:+.1f} sd".replace("-", "−"))
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    seeds = {len(values) for values in found.values()}
    note = f"Final test accuracy in %, mean ± standard deviation over {min(seeds)} seeds; "
    return "\n".join([*lines, "", note + "differences in standard deviations of the paper."])


TABLES = {"table-2": table, "readings": readings}


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


def main() -> int:
    """Write the pages, or say which of them differ."""
    check = "--check" in sys.argv[1:]
    different = [page for page in PAGES if filled(page) != page.read_text(encoding="utf-8")]
    for page in different:
        if check:
            sys.stderr.write(f"{page.relative_to(ROOT)}: its table is not the one of results/\n")
        else:
            page.write_text(filled(page), encoding="utf-8")
    return 1 if check and different else 0


if __name__ == "__main__":
    sys.exit(main())
