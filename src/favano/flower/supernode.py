"""A stock SuperNode with a share of a data set: supported everywhere, a new process per call."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import NoReturn

from favano.flower.share import Share

_WORDS = {"partition": "partition-id", "partitions": "num-partitions"}  # as Flower calls them


def become_supernode(
    address: str, share: Share, *, root_certificate: Path | None, key: Path | None, pace: float
) -> NoReturn:
    """Replace this process by Flower's SuperNode."""
    command = supernode_command(
        address, share, root_certificate=root_certificate, key=key, pace=pace, port=_free_port()
    )
    os.execvp(command[0], command)


def supernode_command(
    address: str,
    share: Share,
    *,
    root_certificate: Path | None,
    key: Path | None,
    pace: float,
    port: int,
) -> list[str]:
    """The command that starts a SuperNode; `port` is for its own processes, on this machine."""
    secure = ["--insecure"]
    if root_certificate is not None:
        secure = ["--root-certificates", str(root_certificate)]
    named = [] if key is None else ["--auth-supernode-private-key", str(key)]
    own = ["--host", "127.0.0.1", "--port", str(port)]
    config = node_config(share, pace)
    return [
        "flower-supernode", *secure, *named, "--superlink", address, *own, "--node-config", config,
    ]  # fmt: skip


def node_config(share: Share, pace: float = 0.0) -> str:
    """A share as `flower-supernode --node-config` takes it.

    >>> node_config(Share(0, 4, split="iid"))
    'partition-id=0 num-partitions=4 dataset="digits" split="iid" seed=0 pace=0.0'
    """
    values = {name: getattr(share, name) for name in share.__dataclass_fields__}
    words = [
        f"{_WORDS.get(name, name.replace('_', '-'))}={_written(value)}"
        for name, value in (*values.items(), ("pace", float(pace)))
        if value is not None
    ]
    return " ".join(words)


def _written(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port
