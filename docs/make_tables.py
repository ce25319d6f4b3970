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
BEGIN, END = "<!-- table-2: made by docs/make_tables.py -->", "<!-- end of table-2 -->"

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


def accuracies() -> dict[tuple[str, str], list[float]]:
    """Final accuracy in per cent of every seed, by method and column."""
    found: dict[tuple[str, str], list[float]] = {}
    with (ROOT / "results" / "table-2" / "runs.csv").open() as file:
        for row in csv.DictReader(file):
            key = row["algorithm"], row["column"]
            found.setdefault(key, []).append(100 * float(row["accuracy"]))
    return found


def table() -> str:
    """The paper's number, ours, and the difference in standard deviations of the paper."""
    found = accuracies()
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


def filled(page: Path) -> str:
    """The page with its table made anew."""
    text = page.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


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
