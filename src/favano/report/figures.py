"""Print-quality figures from `curves.csv` and ledgers, drawn with matplotlib."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from favano.records import CurvePoint, Entry, curves_from_csv, read_file
from favano.records.folder import CURVES
from favano.report.figure_style import GREY, Ending, label_ends, stroke
from favano.report.palette import COLOURS, Look, looks
from favano.report.paper_comparison import Names, Paper, cell, measured
from favano.report.wording import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

_AXES = {"time": "simulated time", "server_steps": "server steps", "local_steps": "local steps"}
_MEASURES = {
    "accuracy": "test accuracy, %",
    "loss": "test loss",
    "variance": r"variance  $\Sigma_i\,\Vert w_i - w\Vert^2$",
}
_WIDE = 40  # points; if accuracies differ by more, the axis goes from 0 to 100
_TICKS = 4  # intervals between ticks on the horizontal axis, at most


@dataclass(frozen=True)
class Line:
    """One curve: the mean over seeds along each axis, with its band."""

    reading: str
    algorithm: str
    seeds: int
    values: Mapping[str, Sequence[float]]


def read_lines(path: Path) -> list[Line]:
    """The curves of a `curves.csv`."""
    grouped: dict[tuple[str, str, str], list[CurvePoint]] = {}
    for point in read_file(path, curves_from_csv):
        grouped.setdefault((point.reading, point.algorithm, point.column), []).append(point)
    return [
        Line(
            reading,
            algorithm,
            seeds=min(point.seeds for point in points),
            values=dict(zip(CurvePoint._fields, zip(*points, strict=True), strict=True)),
        )
        for (reading, algorithm, _), points in grouped.items()
    ]


def curves_figure(
    folder: Path, lines: Names, panels: Sequence[Sequence[tuple[str, str]]], asked: int
) -> Figure:
    """A grid of panels (measure, axis) from `curves.csv` in the folder, with an explanation below.

    A line with fewer seeds than asked for says so at its end; a missing line is named below.
    """
    from matplotlib.figure import Figure

    curves = {
        key: line
        for line in read_lines(folder / CURVES)
        for key in (line.reading, line.algorithm)
        if key in lines
    }
    rows, columns = len(panels), len(panels[0])
    size = (5.4, 3.4) if rows * columns == 1 else (4.3 * columns, 2.7 * rows)
    figure = Figure(figsize=size)
    grid = figure.subplots(rows, columns, squeeze=False)
    figure.subplots_adjust(wspace=0.55 if columns > 1 else 0.2, hspace=0.55)
    for row, measures in enumerate(panels):
        for column, (measure, along) in enumerate(measures):
            letter = _letter(row * columns + column, rows * columns)
            _draw(grid[row][column], curves, lines, measure, along, asked)
            grid[row][column].set_title(letter + _MEASURES[measure], loc="left")
    shown = {measure for measures in panels for measure, _ in measures}
    missing = [text for key, text in lines.items() if key not in curves]
    _write_below(grid[-1][0], _explained(list(curves.values()), shown, missing), -38, va="top")
    return figure


def _letter(number: int, panels: int) -> str:
    """The letter of a panel; a single panel has none."""
    return f"{chr(ord('a') + number)}   " if panels > 1 else ""


def _explained(drawn: Sequence[Line], measures: set[str], missing: Sequence[str]) -> list[str]:
    """The meaning of lines and bands, and what is missing."""
    texts = []
    seeds = max((line.seeds for line in drawn), default=0)
    if seeds == 1:
        texts.append("Lines: one seed.")
    elif seeds:
        bands = "bands: one standard deviation either way"
        texts.append(f"Lines: mean over {counted(seeds, 'seed')}; {bands}.")
    if drawn and "loss" in measures:
        texts.append("The loss is drawn from the first update on.")
    return [*texts, f"Missing: {', '.join(missing)}."] if missing else texts


def _write_below(axes: Axes, lines: Sequence[str], height: float, *, va: str) -> None:
    """Write text below a figure, at a height in points under its lowest left panel."""
    axes.annotate(
        "\n".join(lines), (0, 0), (0, height), "axes fraction", textcoords="offset points",
        color=GREY, fontsize=8, ha="left", va=va, annotation_clip=False,
    )  # fmt: skip


def _draw(
    axes: Axes, curves: Mapping[str, Line], lines: Names, measure: str, along: str, asked: int
) -> None:
    scale = 100.0 if measure == "accuracy" else 1.0
    ends, styles, furthest = [], line_looks(lines), 0.0
    for key, line in ((key, curves[key]) for key in lines if key in curves):
        look = styles[key]
        colour = COLOURS[look.colour]
        x = line.values[along]
        mean, low, high = (
            [scale * y for y in line.values[measure + e]] for e in ("", "_low", "_high")
        )
        first = _first_trained(line) if measure == "loss" else 0
        axes.plot(x[first:], mean[first:], linestyle=stroke(look), color=colour)
        if line.seeds > 1:
            axes.fill_between(
                x[first:], low[first:], high[first:], color=colour, alpha=0.16, linewidth=0
            )
        last = next((i for i in reversed(range(first, len(x))) if math.isfinite(mean[i])), None)
        furthest = max(furthest, *x)
        if last is not None:
            axes.plot(x[last], mean[last], "o", color=colour, markersize=3.5, markeredgewidth=0,
                      clip_on=False)  # fmt: skip
            note = f" ({line.seeds} of {asked} seeds)" if line.seeds < asked else ""
            ends.append(Ending(x[last], mean[last], lines[key] + note, colour))
    if measure == "variance":
        axes.set_yscale("log", nonpositive="mask")
    if measure == "accuracy":
        axes.set_ylim(bottom=0)
    axes.set_xlim(0, furthest or 1)
    axes.grid(axis="x", visible=False)
    axes.locator_params(axis="x", nbins=_TICKS, steps=(1, 2, 2.5, 5, 10))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_xlabel(_AXES[along])
    label_ends(axes, ends)


def _first_trained(line: Line) -> int:
    """The first evaluation after an update.

    The loss of an untrained network says nothing about a method, and can be so large that it hides
    all other values.
    """
    steps = line.values["server_steps"]
    return next((place for place, step in enumerate(steps) if step > 0), len(steps))


def line_looks(lines: Names) -> dict[str, Look]:
    """Looks of the lines of a figure.

    A method has its own look. Lines named `x, variant` have one colour per x and one dash per
    variant.

    >>> names = {key: key for key in ("s = 5, 32 bits", "s = 5, QNN", "s = 9, QNN")}
    >>> looks = list(line_looks(names).values())
    >>> looks[0].colour == looks[1].colour != looks[2].colour, [look.dash for look in looks]
    (True, [0, 1, 1])
    """
    own = looks(lines)
    others = [key.split(", ") for key in lines if len(key.split(", ")) > 1]
    families, variants = (
        list(dict.fromkeys(parts[place] for parts in others)) for place in (0, -1)
    )
    return {
        key: Look(families.index(parts[0]) % len(COLOURS), variants.index(parts[-1]) % 4, 0)
        if (parts := key.split(", ")) in others
        else look
        for key, look in own.items()
    }


def cells_figure(entries: Sequence[Entry], lines: Names, columns: Names, paper: Paper) -> Figure:
    """One panel per column: a dot per seed, a stroke for our mean, a bar for the paper's."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.1 * len(columns), 0.55 * len(lines) + 0.9))
    grid = figure.subplots(1, len(columns), squeeze=False)
    figure.subplots_adjust(wspace=0.12)
    for panel, (column, heading) in enumerate(columns.items()):
        axes = grid[0][panel]
        _draw_column(axes, entries, lines, column, paper)
        axes.set_title(_letter(panel, len(columns)) + heading, loc="left")
        axes.set_yticks(range(len(lines)), list(lines.values()) if panel == 0 else [])
        axes.set_xlabel("test accuracy, %")
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.grid(axis="y", visible=False)
    handles = _cell_handles(len({entry.seed for entry in entries}), bool(paper))
    first = grid[0][0]
    first.legend(
        handles=handles, loc="upper left", bbox_to_anchor=(0, -0.2), ncols=len(handles),
        frameon=False, borderaxespad=0, fontsize=8.5, handletextpad=0.6,
    )  # fmt: skip
    _write_below(first, [f"{measured(entries, lines)}."], -58, va="baseline")
    return figure


def _cell_handles(seeds: int, paper: bool) -> list[Line2D]:
    """The legend of a figure of cells."""
    from matplotlib.lines import Line2D

    ink = COLOURS[5]
    handles = [
        Line2D([], [], linestyle="", marker="o", color=ink, alpha=0.45, markersize=4.2,
               markeredgewidth=0, label=f"one seed of {seeds}"),
        Line2D([], [], linestyle="", marker="|", color=ink, markersize=11, markeredgewidth=2,
               label="mean over seeds"),
    ]  # fmt: skip
    if paper:
        handles.append(Line2D([], [], color=GREY, alpha=0.45, linewidth=4, solid_capstyle="butt",
                            label="the paper's mean ± standard deviation"))  # fmt: skip
    return handles


def _draw_column(
    axes: Axes, entries: Sequence[Entry], lines: Names, column: str, paper: Paper
) -> None:
    styles = line_looks(lines)
    for height, line in enumerate(lines):
        values = list(cell(entries, line, column).accuracy.values())
        colour = COLOURS[styles[line].colour]
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
