"""Print-quality figures from `curves.csv` and from ledgers, drawn by matplotlib."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from favano.metrics import Entry
from favano.report.beside import Names, Paper, cell
from favano.report.ink import COLOURS, GREY, OTHERS, STYLE, label_ends, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_AXES = {"time": "simulated time", "server_steps": "server steps", "local_steps": "local steps"}
_MEASURES = {
    "accuracy": "test accuracy, %",
    "loss": "test loss",
    "variance": r"variance  $\Sigma_i\,\Vert w_i - w\Vert^2$",
}
_WIDE = 40  # points: where accuracies differ by more, an axis goes from 0 to 100
_TICKS = 4  # intervals between ticks of time, at most


@dataclass(frozen=True)
class Line:
    """One curve: the mean over seeds along each axis, with its band."""

    reading: str
    algorithm: str
    seeds: int
    values: Mapping[str, Sequence[float]]


def read_lines(path: Path) -> list[Line]:
    """The curves of a `curves.csv`."""
    grouped: dict[tuple[str, str, str], list[dict[str, str]]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            grouped.setdefault((row["reading"], row["algorithm"], row["column"]), []).append(row)
    words = ("reading", "algorithm", "column")
    return [
        Line(
            reading,
            algorithm,
            seeds=min(int(row["seeds"]) for row in rows),
            values={
                name: [float(row[name]) for row in rows] for name in rows[0] if name not in words
            },
        )
        for (reading, algorithm, _), rows in grouped.items()
    ]


def draw_curves(
    folder: Path, name: str, lines: Names, panels: Sequence[Sequence[tuple[str, str]]], asked: int
) -> list[Path]:
    """Draw a grid of panels (measure, axis) from `curves.csv` in the folder; PNG and PDF.

    A line with fewer seeds than asked for says so at its end, one without any at the foot.
    """
    from matplotlib import style
    from matplotlib.figure import Figure

    found = {
        key: line
        for line in read_lines(folder / "curves.csv")
        for key in (line.reading, line.algorithm)
        if key in lines
    }
    rows, columns = len(panels), len(panels[0])
    size = (5.4, 3.4) if rows * columns == 1 else (4.3 * columns, 2.7 * rows)
    with style.context(STYLE):
        figure = Figure(figsize=size)
        grid = figure.subplots(rows, columns, squeeze=False)
        figure.subplots_adjust(wspace=0.55 if columns > 1 else 0.2, hspace=0.55)
        for row, measures in enumerate(panels):
            for column, (measure, along) in enumerate(measures):
                _draw(grid[row][column], found, lines, measure, along, asked)
        missing = [text for key, text in lines.items() if key not in found]
        if missing:
            note = f"missing: {', '.join(missing)}"
            figure.text(0.125, -0.04, note, color=GREY, fontsize=8, ha="left", va="top")
        return save(figure, folder, name)


def _draw(
    axes: Axes, found: Mapping[str, Line], lines: Names, measure: str, along: str, asked: int
) -> None:
    scale = 100.0 if measure == "accuracy" else 1.0
    ends = []
    for key, line in ((key, found[key]) for key in lines if key in found):
        colour, stroke = _look(key, lines)
        x = line.values[along]
        mean, low, high = (
            [scale * y for y in line.values[measure + e]] for e in ("", "_low", "_high")
        )
        axes.plot(x, mean, stroke, color=colour)
        if line.seeds > 1:
            axes.fill_between(x, low, high, color=colour, alpha=0.16, linewidth=0)
        last = next((i for i in reversed(range(len(x))) if math.isfinite(mean[i])), None)
        if last is not None:
            axes.plot(x[last], mean[last], "o", color=colour, markersize=3.5, markeredgewidth=0)
            note = f" ({line.seeds} of {asked} seeds)" if line.seeds < asked else ""
            ends.append((x[last], mean[last], lines[key] + note, colour))
    if measure == "variance":
        axes.set_yscale("log", nonpositive="mask")
    if measure == "accuracy":
        axes.set_ylim(bottom=0)
    if measure == "loss":
        axes.set_ylim(_losses_after_start(found, lines))
    axes.set_xlim(left=0)
    axes.margins(x=0)
    axes.grid(axis="x", visible=False)
    axes.locator_params(axis="x", nbins=_TICKS, steps=(1, 2, 2.5, 5, 10))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_xlabel(_AXES[along])
    axes.set_title(_MEASURES[measure])
    label_ends(axes, ends)


def _losses_after_start(found: Mapping[str, Line], lines: Names) -> tuple[float, float] | None:
    """Limits of the loss of networks trained at all: that of an untrained one says nothing."""
    values = [found[key].values for key in lines if key in found]
    losses = [
        band[place]
        for one in values
        for place, mean in enumerate(one["loss"])
        if mean != one["loss"][0]
        for band in (one["loss_low"], one["loss_high"])
        if math.isfinite(band[place])
    ]
    room = 0.05 * (max(losses) - min(losses)) if losses else 0.0
    return (min(losses) - room, max(losses) + room) if room else None


def _look(key: str, lines: Names) -> tuple[str, str]:
    """Colour and stroke: a method's own, else a colour a family `x` of lines `x, variant`.

    >>> names = {key: key for key in ("s = 5, 32 bits", "s = 5, QNN", "s = 9, QNN")}
    >>> [_look(key, names) for key in names]
    [('#0072b2', '-'), ('#0072b2', '--'), ('#c04f00', '--')]
    """
    if key in COLOURS:
        return COLOURS[key], "-"
    families, variants = (list(dict.fromkeys(one.split(", ")[n] for one in lines)) for n in (0, -1))
    family, variant = key.split(", ")[0], key.split(", ")[-1]
    stroke = ("-", "--", ":")[variants.index(variant) % 3] if family != variant else "-"
    return OTHERS[families.index(family) % len(OTHERS)], stroke


def draw_cells(
    folder: Path,
    name: str,
    entries: Sequence[Entry],
    lines: Names,
    columns: Names,
    paper: Paper,
) -> list[Path]:
    """Every seed's final accuracy as a dot, the mean as a stroke, the paper's mean ± sd a bar."""
    from matplotlib import style
    from matplotlib.figure import Figure

    with style.context(STYLE):
        figure = Figure(figsize=(3.1 * len(columns), 0.55 * len(lines) + 0.9))
        grid = figure.subplots(1, len(columns), squeeze=False)
        figure.subplots_adjust(wspace=0.12)
        for panel, (column, heading) in enumerate(columns.items()):
            axes = grid[0][panel]
            _draw_column(axes, entries, list(lines), column, paper)
            axes.set_title(heading)
            axes.set_yticks(range(len(lines)), list(lines.values()) if panel == 0 else [])
            axes.tick_params(axis="y", length=0)
            axes.spines["left"].set_visible(False)
            axes.grid(axis="y", visible=False)
        key = "final test accuracy, %: dots are seeds, strokes means; grey the paper, mean ± sd"
        grid[0][0].set_xlabel(key, loc="left")
        return save(figure, folder, name)


def _draw_column(
    axes: Axes, entries: Sequence[Entry], lines: Sequence[str], column: str, paper: Paper
) -> None:
    for height, line in enumerate(lines):
        values = list(cell(entries, line, column).accuracy.values())
        colour = COLOURS.get(line, OTHERS[height % len(OTHERS)])
        if (line, column) in paper:
            mean, spread = paper[line, column]
            axes.plot([mean - spread, mean + spread], [height + 0.2] * 2, color=GREY, linewidth=4,
                      alpha=0.45, solid_capstyle="butt")  # fmt: skip
            axes.plot(mean, height + 0.2, "|", color=GREY, markersize=8, markeredgewidth=1.6)
        axes.plot(values, [height - 0.12] * len(values), "o", color=colour, markersize=4.2,
                  alpha=0.45, markeredgewidth=0)  # fmt: skip
        if values:
            middle = sum(values) / len(values)
            axes.plot(middle, height - 0.12, "|", color=colour, markersize=13, markeredgewidth=2)
        else:
            axes.text(0.5, height, "missing", color=GREY, fontsize=8, va="center",
                      transform=axes.get_yaxis_transform())  # fmt: skip
    axes.set_ylim(len(lines) - 0.45, -0.55)
    low, high = axes.get_xlim()
    if high - low > _WIDE:
        axes.set_xlim(0, 100)
