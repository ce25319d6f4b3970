"""Tables and small plots as HTML, by which results, plans and fleets show themselves in notebooks.

Every text is escaped. Plots are inline SVG in the colour of the notebook's text, for light and dark
themes; nothing is loaded and no script is run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import floor, log10

from favano.types import Floats

_WIDTH, _HEIGHT, _LEFT, _LINE = 360, 170, 46, 17  # of a plot and its margin, in pixels
_SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{0}" height="{1}" viewBox="0 0 {0} '
    '{1}" style="font: 11px sans-serif; max-width: 100%" fill="currentColor"><title>{2}</title>'
)
_LARGEST = 1e100
_SHARED, _MARK = "#0072b2", "#c04f00"


@dataclass(frozen=True)
class PlotLine:
    """A line of a plot; values that are not finite, or too large for an axis, are left out."""

    name: str
    x: Sequence[float] | Floats
    y: Sequence[float] | Floats
    colour: str = _SHARED
    dash: Sequence[float] = ()

    @property
    def points(self) -> list[tuple[float, float]]:
        """What can be drawn of it."""
        pairs = zip(self.x, self.y, strict=True)
        return [(float(x), float(y)) for x, y in pairs if abs(x) < _LARGEST > abs(y)]


def table(caption: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of texts; the first column says what a row is about."""

    def row(tag: str, texts: Sequence[str]) -> str:
        sides = ["left", *["right"] * (len(texts) - 1)]
        cells = (
            f'<{tag} style="text-align: {side}">{escape(text)}</{tag}>'
            for side, text in zip(sides, texts, strict=True)
        )
        return f"<tr>{''.join(cells)}</tr>"

    body = "".join(row("td", texts) for texts in rows)
    above = f'<caption style="text-align: left">{escape(caption)}</caption>' if caption else ""
    return f"<table>{above}<thead>{row('th', headings)}</thead><tbody>{body}</tbody></table>"


def paragraph(text: str) -> str:
    """A paragraph of text; nothing without one."""
    return f"<p>{escape(text)}</p>" if text else ""


def line_plot(lines: Sequence[PlotLine], along: str, measure: str) -> str:
    """Lines with their names beside them; nothing if there is no line of two points.

    Args:
        lines: with the same axes.
        along: name of the horizontal axis.
        measure: name of the vertical axis.
    """
    drawn = [(line, line.points) for line in lines if len(line.points) > 1]
    if not drawn:
        return ""
    across, upward = (
        _ticks([pair[axis] for _, points in drawn for pair in points]) for axis in (0, 1)
    )
    left, right = across[0], across[-1]
    low, high = upward[0], upward[-1]
    bottom = _HEIGHT - 34

    def place(x: float, y: float) -> tuple[float, float]:
        wide, tall = _WIDTH - _LEFT - 10, bottom - 20
        return _LEFT + wide * (x - left) / (right - left), bottom - tall * (y - low) / (high - low)

    names = [line.name for line, _ in drawn if line.name]
    width = _WIDTH + (30 + 7 * max(map(len, names)) if names else 12)
    height = max(_HEIGHT, 30 + _LINE * len(names))
    parts = [_SVG.format(width, height, escape(f"{measure} by {along}"))]
    for y in upward:
        at = place(left, y)[1]
        parts.append(
            f'<path d="M{_LEFT} {at:.1f}H{_WIDTH - 10}" stroke="currentColor" opacity=".15"/>'
        )
        parts.append(_text(_LEFT - 5, at + 4, f"{y:,.6g}", "end"))
    parts += [_text(place(x, low)[0], bottom + 14, f"{x:,.6g}", "middle") for x in across]
    parts.append(_text(0, 11, measure))
    parts.append(_text((_LEFT + _WIDTH) / 2, bottom + 29, along, "middle"))
    for number, (line, points) in enumerate(drawn):
        path = "L".join("{:.1f} {:.1f}".format(*place(x, y)) for x, y in points)
        style = f'fill="none" stroke="{line.colour}" stroke-width="2"'
        style += f' stroke-dasharray="{" ".join(map(str, line.dash))}"' if line.dash else ""
        parts.append(f'<path d="M{path}" {style}/>')
        if line.name:
            at = 22 + _LINE * number
            parts.append(f'<path d="M{_WIDTH} {at}h20" {style}/>')
            parts.append(_text(_WIDTH + 25, at + 4, line.name))
    return "".join([*parts, "</svg>"])


def share_plot(
    names: Sequence[str],
    shares: Sequence[float] | Floats,
    due: Sequence[float] | Floats,
    measure: str,
) -> str:
    """A bar per name for its share, and a stroke where its share would be the one that is due."""
    most = max([*shares, *due, 1e-9])
    left = 20 + 7 * max(map(len, names))
    height = 24 + 22 * len(names)
    parts = [_SVG.format(_WIDTH, height, escape(measure)), _text(0, 11, measure)]
    wide = _WIDTH - left - 55
    for number, (name, share, fair) in enumerate(zip(names, shares, due, strict=True)):
        top, long = 20 + 22 * number, wide * max(share, 0.0) / most
        mark = left + wide * fair / most
        parts.append(_text(left - 8, top + 13, name, "end"))
        parts.append(
            f'<rect x="{left}" y="{top + 2}" width="{long:.1f}" height="14" fill="{_SHARED}"/>'
        )
        parts.append(f'<path d="M{mark:.1f} {top - 1}v20" stroke="{_MARK}" stroke-width="2.5"/>')
        parts.append(_text(left + max(long, wide * fair / most) + 6, top + 13, f"{share:.1%}"))
    return "".join([*parts, "</svg>"])


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _ticks(values: Sequence[float]) -> list[float]:
    """Three to six round numbers that enclose the values.

    >>> _ticks([3, 88]), _ticks([5, 5])
    ([0.0, 20.0, 40.0, 60.0, 80.0, 100.0], [4.0, 4.5, 5.0, 5.5, 6.0])
    """
    low, high = min(values), max(values)
    if high <= low:
        low, high = low - (abs(low) / 5 or 1.0), high + (abs(high) / 5 or 1.0)
    power = 10.0 ** floor(log10((high - low) / 4))
    step = next(
        size * power for size in (1, 2, 2.5, 5, 10, 20) if (high - low) / (size * power) <= 5
    )
    first, last = floor(low / step), -floor(-high / step)
    return [number * step for number in range(first, last + 1)]
