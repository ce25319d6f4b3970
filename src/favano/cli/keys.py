"""`favano keys`: the keys and certificates of a federation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from favano.cli.shell import need_flower, screen

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="folder for the files")]
Host = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="name or address of the server; may be repeated"),
]
Node = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help="name of a node; may be repeated")
]


def keys_command(folder: Folder, host: Host = None, node: Node = None) -> None:
    """Make an authority, a server certificate and a key per node; call it again for more nodes.

    The server needs authority.crt, server.crt, server.key and the .pub file of each node; a node
    needs authority.crt and its own key. Keep authority.key for yourself.
    """
    need_flower()
    from favano.flower.keys import make_keys

    for path in make_keys(folder, host or [], node or []):
        screen.print(str(path), soft_wrap=True)
