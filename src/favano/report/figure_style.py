"""The style of print figures: colours and dashes of the page, names at the ends of lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from favano.errors import BadInput
from favano.report.palette import DASHES, Look
from favano.types import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

GREY: Final = "#6b6f76"
_LATE = 0.97  # share of the axis; a line that gets this far counts as reaching the edge

STYLE: Final = str(files("favano.report").joinpath("print.mplstyle"))


def check_matplotlib() -> None:
    """Refuse figures and plots if matplotlib is not installed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise BadInput("matplotlib", "missing", "needs pip install 'favano[print]'") from error


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure as PNG and PDF, without dates, so that equal figures are equal files."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.png", folder / f"{name}.pdf"]
    figure.savefig(paths[0], metadata={"Software": None})
    figure.savefig(paths[1], metadata={"CreationDate": None, "Producer": None, "Creator": None})
    return paths


def spread_out(heights: Sequence[float], gap: float) -> list[float]:
    """Heights in 0..1, moved apart by at least `gap`, in the same order.

    >>> [round(height, 2) for height in spread_out([0.5, 0.52, 0.9], 0.1)]
    [0.46, 0.56, 0.9]
    """
    order = sorted(range(len(heights)), key=lambda index: heights[index])
    groups: list[list[int]] = []
    middles: list[float] = []
    for index in order:
        groups.append([index])
        middles.append(heights[index])
        while (
            len(groups) > 1
            and middles[-1] - middles[-2] < gap * (len(groups[-1]) + len(groups[-2])) / 2
        ):
            joined = groups.pop(-2) + groups.pop()
            del middles[-2:]
            groups.append(joined)
            middles.append(sum(heights[member] for member in joined) / len(joined))
    placed = [0.0] * len(heights)
    for group, middle in zip(groups, middles, strict=True):
        for position, index in enumerate(group):
            placed[index] = middle + (position - (len(group) - 1) / 2) * gap
    return placed


@dataclass(frozen=True)
class Ending:
    """Where a line ends, and the name to write there."""

    x: float
    y: float
    text: str
    colour: str


def stroke(look: Look) -> str | tuple[float, tuple[float, ...]]:
    """The dash of a look in matplotlib's unit, the width of the line, which is 2 on the page."""
    lengths = DASHES[look.dash]
    return (0, tuple(length / 2 for length in lengths)) if lengths else "-"


def label_ends(axes: Axes, ends: Sequence[Ending], *, points: float = 8.5) -> None:
    """Write the names of lines at their right ends, in their colours, without overlaps.

    Names of lines that reach the right edge are in the margin. A line that ends early has its name
    near its end, where it covers the fewest lines, with a thin stroke if it is not next to it.
    """
    from matplotlib.patheffects import Normal, Stroke

    figure = axes.get_figure()
    assert figure is not None
    extent = axes.get_window_extent()
    em_x, em_y = (points * figure.dpi / 72 / size for size in (extent.width, extent.height))
    into = axes.transData + axes.transAxes.inverted()
    drawn = [into.transform(line.get_xydata()) for line in axes.lines]
    places = [tuple(map(float, into.transform((end.x, end.y)))) for end in ends]
    late = [index for index, (x, _) in enumerate(places) if x >= _LATE]
    heights = spread_out([places[index][1] for index in late], 1.25 * em_y)
    boxes = [(1.0, 2.0, height) for height in heights]  # left, right and height of the names so far
    for index, height in zip(late, heights, strict=True):
        _write(axes, ends[index], (1.02, height), points)
    for index, end in enumerate(ends):
        if index in late:
            continue
        x, y = places[index]
        left, right = x + 0.7 * em_x, x + (0.7 + 0.62 * len(end.text)) * em_x
        others = [at for start, stop, at in boxes if start < right and left < stop]
        height = _free_height(drawn, others, np.linspace(left, right, 20), y, em_y)
        boxes.append((left, right, height))
        rim = [Stroke(linewidth=2.5, foreground="white"), Normal()]  # separates it from lines
        _write(axes, end, (left, height), points).set_path_effects(rim)
        if abs(height - y) > em_y:
            foot = height - np.sign(height - y) * 0.6 * em_y
            axes.plot([x, left], [y, foot], color=end.colour, linewidth=0.6,
                      transform=axes.transAxes)  # fmt: skip


def _write(axes: Axes, end: Ending, place: tuple[float, float], points: float) -> Text:
    """Write a name at a place in 0..1."""
    return axes.text(
        *place, end.text, color=end.colour, fontsize=points, va="center", transform=axes.transAxes
    )


def _free_height(
    lines: Sequence[Floats], names: Sequence[float], along: Floats, y: float, line_height: float
) -> float:
    """The height in 0..1 nearest to y at which a text covers no other name and the fewest lines."""
    crossing = [np.interp(along, line[:, 0], line[:, 1], right=np.nan) for line in lines]
    steps = sorted(np.arange(-3, 3.5, 0.5), key=lambda step: (abs(step), -step))
    heights = [y + step * line_height for step in steps]
    inside = [height for height in heights if line_height / 2 <= height <= 1 - line_height / 2]

    def covered(height: float) -> int:
        over = sum(abs(name - height) < 1.2 * line_height for name in names)
        across = sum(bool((abs(ys - height) < 0.8 * line_height).any()) for ys in crossing)
        return len(lines) * over + across

    return float(min(inside or [y], key=covered))
