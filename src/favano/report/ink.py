"""How print figures look: one colour a method, names at the ends of lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final

from favano.errors import BadInput

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The page's colours on white (Okabe and Ito's hues set for contrast), in its order of methods.
COLOURS: Final[Mapping[str, str]] = {
    "favano": "#0072b2",
    "fedavg": "#c04f00",
    "quafl": "#007a59",
    "fedbuff": "#ad4f86",
    "favano-delta": "#8a5e00",
}
OTHERS: Final = ("#0072b2", "#c04f00", "#007a59", "#ad4f86", "#8a5e00", "#2b2d31", "#2279ad")
GREY: Final = "#6b6f76"

STYLE: Final = str(files("favano.report").joinpath("print.mplstyle"))


def check_matplotlib() -> None:
    """Refuse figures where the library that draws them is not installed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise BadInput("name", "figure", "needs pip install 'favano[print]'") from error


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure as PNG and PDF; neither holds a date, so equal figures are equal files."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.png", folder / f"{name}.pdf"]
    figure.savefig(paths[0], metadata={"Software": None})
    figure.savefig(paths[1], metadata={"CreationDate": None, "Producer": None, "Creator": None})
    return paths


def spread_out(heights: Sequence[float], gap: float) -> list[float]:
    """Heights in 0..1 pushed apart to at least `gap`, in the same order.

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
            middles.append(sum(heights[one] for one in joined) / len(joined))
    placed = [0.0] * len(heights)
    for group, middle in zip(groups, middles, strict=True):
        for position, index in enumerate(group):
            placed[index] = middle + (position - (len(group) - 1) / 2) * gap
    return placed


def label_ends(
    axes: Axes, ends: Sequence[tuple[float, float, str, str]], *, points: float = 8.5
) -> None:
    """Names of lines at their right ends, in their colours, none over another."""
    if not ends:
        return
    pixels = axes.get_window_extent().height
    figure = axes.get_figure()
    assert figure is not None
    gap = 1.25 * points * figure.dpi / 72 / pixels
    into = axes.transAxes.inverted()
    heights = [float(into.transform(axes.transData.transform((x, y)))[1]) for x, y, _, _ in ends]
    for (_, _, text, colour), height in zip(ends, spread_out(heights, gap), strict=True):
        axes.text(
            1.02, height, text, transform=axes.transAxes, color=colour, fontsize=points, va="center"
        )
