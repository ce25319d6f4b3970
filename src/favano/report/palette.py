"""The look of each method on the page and in print: a colour, a dash and a mark.

A look depends on the name of the method, not on its place in a list. The four methods of the paper
differ in dash as well as in colour, so that colours are not needed to tell them apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from typing import Final

from favano.methods import our_methods
from favano.report.settings import ReportSetting

# On white; --c0 to --c6 in page.css. The hues of Okabe and Ito, adjusted for contrast.
COLOURS: Final = ("#0072b2", "#c04f00", "#007a59", "#ad4f86", "#8a5e00", "#2b2d31", "#6b5fb5")
# Lengths on and off; .dash-0 to .dash-5 in page.css. Built-in methods use the first four.
DASHES: Final[Sequence[tuple[float, ...]]] = (
    (),
    (7, 3),
    (2, 2.5),
    (8, 2.5, 2, 2.5),
    (13, 3),
    (8, 2.5, 2, 2.5, 2, 2.5),
)
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


@dataclass(frozen=True)
class Look:
    """The look of a method: numbers of its colour, dash and mark."""

    colour: int
    dash: int
    mark: int

    @property
    def path(self) -> str:
        """The mark as an SVG path around the origin."""
        return _MARKS[self.mark]

    @property
    def classes(self) -> str:
        """The CSS classes of a line of this method."""
        return f"method-{self.colour} dash-{self.dash}"


def _fixed(number: int) -> Look:
    turn, colour = divmod(number, len(COLOURS))
    return Look(colour, (number + 2 * turn) % 4, number % len(_MARKS))


_KNOWN: Mapping[str, Look] = {
    name: _fixed(method.plot_style)
    for method in our_methods().values()
    if method.plot_style is not None
    for name in (method.name, method.title)
}
_TAKEN = {(look.colour, look.dash) for look in _KNOWN.values()}
_FREE = [
    (colour, dash)
    for dash in range(len(DASHES))
    for colour in range(len(COLOURS))
    if (colour, dash) not in _TAKEN
]


def looks(names: Iterable[str]) -> dict[str, Look]:
    """The look of each name, which may be that of a method, its title, or any label.

    A built-in method always has the same look. A variant `FAVANO (...)` has the colour of the
    method if possible. The hash of any other name selects a pair of colour and dash, or the next
    free one if another name on the same page has it.

    >>> looks(["fedbuff", "favano"])["favano"] == looks(["FAVANO"])["FAVANO"]
    True
    """
    listed = list(dict.fromkeys(names))
    used: set[tuple[int, int]] = set()
    chosen = {name: _KNOWN[name] for name in listed if name in _KNOWN}
    for name in sorted(set(listed) - chosen.keys()):
        number = int.from_bytes(sha256(name.encode()).digest()[:8])
        method = _KNOWN.get(name.partition(" (")[0])
        own = [pair for pair in _FREE if method is not None and pair[0] == method.colour]
        wanted = list(chain(_from(own, number), _from(_FREE, number)))
        pair = next((pair for pair in wanted if pair not in used), wanted[0])
        used.add(pair)
        chosen[name] = Look(*pair, mark=number // len(_FREE) % len(_MARKS))
    return {name: chosen[name] for name in listed}


def _from(pairs: Sequence[tuple[int, int]], start: int) -> list[tuple[int, int]]:
    """All pairs, in a cycle that begins at a given number."""
    place = start % len(pairs) if pairs else 0
    return [*pairs[place:], *pairs[:place]]


def methods(settings: Sequence[ReportSetting]) -> dict[str, Look]:
    """Looks of the methods on a page by title, in order of appearance."""
    return looks(result.title for each in settings for result in each.results)
