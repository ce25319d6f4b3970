"""The tables of `docs/how-to/running-a-federation.md`, from `benchmarks/results/`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from speed_records import Contacts, UnevenNodes
from speed_tables import page_sheet, text

NODES = {"stock": "stock SuperNode", "resident": "resident"}
METHODS = {
    "favano": "FAVANO", "fedavg": "FedAvg", "fedbuff": "FedBuff", "favano-delta": "FAVANO-delta",
}  # fmt: skip
TIMES = (30, 75, 150, 300)  # seconds since the first call


def contacts() -> str:
    """What a contact costs, by node and size of the model."""
    contacts: Contacts = json.loads(text("contacts"))
    sizes = list(dict.fromkeys(line["bytes_each_way"] for line in contacts["contacts"]))
    cells = {(line["node"], line["bytes_each_way"]): line for line in contacts["contacts"]}
    rows = []
    for node, name in NODES.items():
        lines = [cells[node, size] for size in sizes]
        rows.append([name, *(_spread(line["median"], line["seconds"]) for line in lines)])
    heads = [f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.0f} kB" for size in sizes]
    return page_sheet(["node", *(f"{head} each way" for head in heads)], rows, contacts)


def _spread(median: float, values: list[float]) -> str:
    return f"{median:#.2g} s ({min(values):#.2g} to {max(values):#.2g})"


def uneven_nodes() -> str:
    """Accuracy of the last model by each time."""
    measured: UnevenNodes = json.loads(text("uneven_nodes"))
    rows = []
    for run in measured["runs"]:
        last = [[row for row in run["rows"] if row[1] <= time][-1] for time in TIMES]
        accuracies = [f"{accuracy:.3f}" for _, _, accuracy in last]
        rows.append([METHODS[run["method"]], *accuracies, f"{last[-1][0]:.0f}"])
    return page_sheet(["method", *(f"{time} s" for time in TIMES), "updates"], rows, measured)


TABLES: Mapping[str, Callable[[], str]] = {"contacts": contacts, "uneven-nodes": uneven_nodes}
