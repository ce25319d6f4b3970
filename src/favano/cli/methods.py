"""`favano methods`: all methods in a line each, or the card of one."""

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
    """All methods in a line each; of one its idea, update, options and what goes wrong."""
    kinds = list(all_methods().values()) if name is None else [method_class(name)]
    if json:
        print_json({"methods": [card_document(kind) for kind in kinds]})
    elif name is None:
        width = max(len(kind.name) for kind in kinds)
        for kind in kinds:
            screen.print(
                f"{kind.name:{width}}  {summary(kind)}", soft_wrap=True, markup=False, emoji=False
            )
    else:
        screen.print(card(kinds[0]), soft_wrap=True, markup=False, emoji=False)
