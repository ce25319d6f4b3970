"""How series are told apart: a colour and a dash each, so that neither carries it alone."""

from __future__ import annotations

_COLOURS = 8  # --series-0 to --series-7 in page.css, Okabe and Ito's hues set for contrast
_DASHES = ("", "9 5", "2.5 4", "9 4 2.5 4", "15 5", "15 4 2.5 4")


def colour(index: int) -> str:
    """The style sheet's name for a series' colour; light and dark pages mix it differently.

    >>> colour(0), colour(8)
    ('--series-0', '--series-0')
    """
    return f"--series-{index % _COLOURS}"


def dash(index: int) -> str:
    """Lengths of strokes and gaps as SVG writes them, empty for a solid line."""
    return _DASHES[index % len(_DASHES)]
