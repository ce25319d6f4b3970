"""How methods are told apart: a colour and a mark each, so that neither carries it alone."""

from __future__ import annotations

from collections.abc import Sequence

from favano.report.settings import Setting

COLOURS = 8  # --method-0 to --method-7 in page.css, Okabe and Ito's hues set for contrast
_MARKS = (
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",  # circle
    "M-3.6-3.6h7.2v7.2h-7.2z",  # square
    "M0-4.8L4.6 3.4H-4.6z",  # triangle
    "M0-5.2L5.2 0L0 5.2L-5.2 0z",  # diamond
    "M0 4.8L4.6-3.4H-4.6z",  # triangle, point down
    "M-1.5-4.5h3v3h3v3h-3v3h-3v-3h-3v-3h3z",  # plus
    "M-5-2.4h10v4.8h-10z",  # flat
    "M-2.4-5h4.8v10h-4.8z",  # tall
    "M0-5L4.8-1.5L3 4H-3L-4.8-1.5z",  # pentagon
)


def methods(settings: Sequence[Setting]) -> dict[str, int]:
    """Numbers of the methods by title, the same in every setting."""
    titles = dict.fromkeys(result.title for each in settings for result in each.results)
    return {title: number for number, title in enumerate(titles)}


def colour(number: int) -> int:
    """Which of the style sheet's colours a method has; light and dark pages mix it differently.

    >>> colour(0), colour(8)
    (0, 0)
    """
    return number % COLOURS


def mark(number: int) -> str:
    """The method's mark as an SVG path around the origin; nine marks, so that pairs of colour and
    mark repeat after 72 methods."""
    return _MARKS[number % len(_MARKS)]
