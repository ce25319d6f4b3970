"""`favano methods`: all methods, one line each, or the card of one method."""

from __future__ import annotations

from typing import Annotated

import typer

from favano.cli.flags import Json
from favano.cli.shell import print_json, screen
from favano.methods import all_methods, method_class
from favano.methods.card import card, card_document, summary

Name = Annotated[
    str | None, typer.Argument(metavar="NAME", help="a method, or file.py:Name [default: all]")
]


def methods_command(name: Name = None, json: Json = False) -> None:
    """List all methods, or explain one: its idea, update, options and pitfalls."""
    kinds = list(all_methods().values()) if name is None else [method_class(name)]
    if json:
        print_json({"methods": [card_document(kind) for kind in kinds]})
    elif name is None:
        width = max(len(kind.name) for kind in kinds)
        _print("\n".join(f"{kind.name:{width}}  {summary(kind)}" for kind in kinds))
    else:
        _print(card(kinds[0]))


def _print(text: str) -> None:
    screen.print(text, soft_wrap=True)
