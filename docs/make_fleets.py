"""Writes `results/fleets/`: what the study in `docs/reference/fleets-study.md` measured.

python docs/make_fleets.py FOLDER    # with plain, qsgd, flipped, trimmed, tuning and plans
python docs/make_fleets.py           # the pictures alone
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from fleet_tables import HOUR, METHODS, RESULTS, VARIANTS, Row, rows, runs_of
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from favano.methods import our_methods
from favano.report.figure_style import STYLE
from favano.report.palette import COLOURS, DASHES

KEPT = (
    "seed", "time", "server_step", "local_steps", "bits_up", "bits_down", "loss", "accuracy",
    "accuracy_clients", "accuracy_worst", "energy",
)  # fmt: skip
PANELS = {"plain": "messages in full", "qsgd": "8 bits per parameter (qsgd)"}


def main() -> None:
    """Gather, if there is a folder to gather from, and draw."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    if sys.argv[1:]:
        folder = Path(sys.argv[1])
        write("history", [row for variant in VARIANTS for row in histories(folder, variant)])
        write("tuning", list(searched(folder / "tuning")))
        write("weights", list(weights(folder / "plans")))
    with plt.style.context(STYLE):
        save(curves(), "curves")
        save(shares(), "weights")
        save(flips(), "flipped")


def write(name: str, lines: Sequence[Row]) -> None:
    """Write rows as a CSV file."""
    with (RESULTS / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)


def read(path: Path) -> list[Row]:
    """The rows of a history."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def histories(folder: Path, variant: str) -> Iterator[Row]:
    """The evaluations of every method in one variant, if it has run."""
    for method in METHODS:
        path = folder / variant / method / "history.csv"
        for row in read(path) if path.is_file() else []:
            kept = {key: f"{float(row[key]):.10g}" for key in KEPT}
            yield {"variant": variant, "method": method, **kept}


def searched(folder: Path) -> Iterator[Row]:
    """The last evaluation of each pair of rates."""
    for method in METHODS:
        found = folder.glob(f"{method}-[0-9]*/history.csv")
        pairs = [(path.parent.name.removeprefix(f"{method}-").split("-"), path) for path in found]
        for rates, path in sorted(pairs, key=lambda pair: [float(rate) for rate in pair[0]]):
            last = read(path)[-1]
            accuracy = f"{float(last['accuracy']):.6g}"
            shown = " / ".join([rates[0], *(rates[1:] or ["1"])])
            yield {"method": method, "rates": shown, "accuracy": accuracy, "time": last["time"]}


def weights(folder: Path) -> Iterator[Row]:
    """Weights by availability, from `favano plan --json`."""
    for method in METHODS:
        for path in sorted(folder.glob(f"{method}-[0-9].json")):
            audit = json.loads(path.read_text(encoding="utf-8"))["audit"]
            for tenth, share in enumerate(audit["availability"]):
                numbers = {key: f"{share[key]:.6g}" for key in ("weight", "fair")}
                yield {"method": method, "seed": path.stem[-1], "tenth": str(tenth), **numbers}


def save(figure: Figure, name: str) -> None:
    """Write a picture without dates."""
    figure.savefig(RESULTS / f"{name}.png", metadata={"Software": None})


def line(axes: Axes, number: int, x: Sequence[float], y: Sequence[float], label: str = "") -> None:
    """A method's line, in its colour and dash."""
    colour, dash = COLOURS[number], DASHES[number]
    axes.plot(x, y, color=colour, dashes=dash or (None, None), label=label)


def curves() -> Figure:
    """Accuracy and the worst tenth against hours, accuracy against energy; mean over seeds."""
    figure, grid = plt.subplots(
        2, 3, figsize=(10.5, 6), sharex="col", sharey="col", layout="constrained"
    )
    history = rows("history")
    for panels, (variant, title) in zip(grid, PANELS.items(), strict=True):
        for number, method in enumerate(METHODS):
            runs = runs_of(history, variant, method)
            if not runs:
                continue
            mean = {
                key: np.mean([[float(row[key]) for row in run] for run in runs], axis=0)
                for key in ("time", "accuracy", "accuracy_worst", "energy")
            }
            hours, label = mean["time"] / HOUR, our_methods()[method].title
            line(panels[0], number, hours, 100 * mean["accuracy"], label)
            line(panels[1], number, hours, 100 * mean["accuracy_worst"])
            line(panels[2], number, mean["energy"][1:] / 1e6, 100 * mean["accuracy"][1:])
        for axes, name in zip(panels, ("accuracy", "worst tenth", "accuracy"), strict=True):
            axes.set_title(f"{name}: {title}", fontsize=9)
        for axes in panels[:2]:
            axes.set_xlabel("hours")
        panels[2].set_xlabel("megajoules, of all clients")
        panels[0].set_ylabel("%")
    for axes, lowest in zip(grid[0], (60, 30, 60), strict=True):
        axes.set_ylim(lowest, None)
    grid[0, 0].legend(frameon=False)
    return figure


def shares() -> Figure:
    """The weight of each tenth by availability."""
    figure, axes = plt.subplots(figsize=(6.5, 3.2), layout="constrained")
    found = rows("weights")
    for number, method in enumerate(METHODS):
        of_method = [row for row in found if row["method"] == method]
        by_tenth = [
            [100 * float(row["weight"]) for row in of_method if int(row["tenth"]) == tenth]
            for tenth in range(10)
        ]
        mean = [float(np.mean(values)) for values in by_tenth]
        line(axes, number, range(1, 11), mean, our_methods()[method].title)
    axes.axhline(10, color="#6b6f76", linewidth=0.8)
    axes.text(1, 10.6, "fair", color="#6b6f76")
    axes.set_xticks(range(1, 11))
    axes.set_xlabel("tenth of the clients, the least available first")
    axes.set_ylabel("% of the final model")
    axes.legend(frameon=False)
    return figure


def flips() -> Figure:
    """Accuracy against hours where one client in ten flips the sign of what it sends."""
    figure, panels = plt.subplots(
        1, 2, figsize=(8, 3.2), sharex=True, sharey=True, layout="constrained"
    )
    titles = {"flipped": "the methods' own means", "trimmed": "trimmed mean"}
    history = rows("history")
    for axes, (variant, title) in zip(panels, titles.items(), strict=True):
        for number, method in enumerate(METHODS):
            runs = runs_of(history, variant, method)
            if not runs:
                continue
            hours = [float(row["time"]) / HOUR for row in runs[0]]
            every = [[100 * float(row["accuracy"]) for row in run] for run in runs]
            mean = np.mean(every, axis=0).tolist()
            line(axes, number, hours, mean, our_methods()[method].title)
        axes.set_title(f"one in ten flips signs: {title}", fontsize=9)
        axes.set_xlabel("hours")
    panels[0].set_ylabel("accuracy, %")
    panels[0].legend(frameon=False)
    return figure


if __name__ == "__main__":
    main()
