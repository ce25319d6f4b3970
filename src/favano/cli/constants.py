"""Flags of `favano theory` for the constants of the theorem, the same in every command."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated

import typer
from rich.table import Table

Smoothness = Annotated[float, typer.Option("--smoothness", help="L, of the clients' gradients")]
Noise = Annotated[float, typer.Option("--noise", help="sigma, of mini-batch gradients")]
Dissimilarity = Annotated[float, typer.Option("--dissimilarity", help="G, between clients")]
Growth = Annotated[float, typer.Option("--growth", help="B >= 1, of the dissimilarity")]
Gap = Annotated[float, typer.Option("--gap", help="F = f(w_0) - f_*")]
Target = Annotated[float, typer.Option("--target", help="epsilon, for the mean ||grad f||^2")]
Rounds = Annotated[
    int | None, typer.Option("--rounds", help="server steps T [default: those in the horizon]")
]
Pilot = Annotated[
    bool, typer.Option("--pilot", help="measure L, sigma, G and F in a short run instead")
]


def number(value: object) -> str:
    """A number for people; what is not known is a dash."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return "–" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def table_of(title: str, headings: Iterable[str], rows: Mapping[str, Iterable[object]]) -> Table:
    """One row a name, numbers to the right."""
    table = Table(title=title, title_justify="left")
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="right" if place else "left")
    for name, values in rows.items():
        table.add_row(name, *(number(value) for value in values))
    return table
