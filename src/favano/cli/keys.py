"""`favano keys`: the keys and certificates of a federation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from favano.cli.shell import need_flower, say, screen

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="folder for the files")]
Host = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="name or address of the server; may be repeated"),
]
Node = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help="name of a node; may be repeated")
]
Revoke = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="node that is let in no more, server, or operator"),
]


def keys_command(
    folder: Folder, host: Host = None, node: Node = None, revoke: Revoke = None
) -> None:
    """Make the keys of a federation: authority, server, operator, and one per node.

    Call it again for more nodes, and to revoke some: a server that runs follows within seconds. A
    name that is revoked and given with --node in one command gets a new key. The server needs
    authority.crt, server.crt, server.key, operator.key and the .pub file of each node; a node needs
    authority.crt, operator.yaml and its own key. Keep authority.key for yourself.
    """
    need_flower()
    from favano.flower.keys import make_keys

    made = make_keys(folder, host or [], node or [], revoke or [])
    for name in revoke or []:
        say(f"revoked: {name}")
    for path in made:
        screen.print(str(path), soft_wrap=True)
