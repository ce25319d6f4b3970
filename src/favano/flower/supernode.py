"""A stock SuperNode with a share of a data set: supported everywhere, a new process per call."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from favano.errors import require
from favano.flower.addresses import is_loopback
from favano.flower.data_partition import DataPartition
from favano.flower.keys import read_operators
from favano.flower.limits import Limits
from favano.flower.signed_calls import calls_file
from favano.flower.superlink import free_port

_WORDS = {"partition": "partition-id", "partitions": "num-partitions"}  # as Flower calls them


@dataclass(frozen=True)
class Stock:
    """What a SuperNode is started with.

    Args:
        root_certificate: of the authority that signed the server's certificate.
        key: of this node.
        operator: public half of the operator's key: apps and calls that it has not signed are not
            run and not answered.
        pace: seconds that a step takes at least.
        limits: what a server may ask for.
    """

    root_certificate: Path | None = None
    key: Path | None = None
    operator: Path | None = None
    pace: float = 0.0
    limits: Limits = field(default_factory=Limits)


def become_supernode(address: str, share: DataPartition, stock: Stock) -> NoReturn:
    """Replace this process by Flower's SuperNode."""
    command = supernode_command(address, share, stock, port=free_port())
    os.execvp(command[0], command)


def supernode_command(address: str, share: DataPartition, stock: Stock, *, port: int) -> list[str]:
    """The command that starts a SuperNode; `port` is for its own processes, on this machine."""
    secure, more = ["--insecure"], dict[str, object](stock.limits.words())
    if stock.root_certificate and stock.key and stock.operator:
        read_operators(stock.operator)
        secure = [
            "--root-certificates", str(stock.root_certificate),
            "--auth-supernode-private-key", str(stock.key),
            "--trusted-entities", str(stock.operator),
        ]  # fmt: skip
        more["operator"] = str(stock.operator.absolute())
        more["calls"] = str(calls_file(stock.key).absolute())
    else:
        rule = (
            "is another machine, and a stock SuperNode executes the app of whoever submits a run: "
            "need operator, key and root certificate (favano keys), or a resident node"
        )
        require(is_loopback(address.rpartition(":")[0]), "address", address, rule)
    own = ["--host", "127.0.0.1", "--port", str(port)]
    config = node_config(share, {"pace": float(stock.pace), **more})
    return ["flower-supernode", *secure, "--superlink", address, *own, "--node-config", config]


def node_config(share: DataPartition, more: Mapping[str, object]) -> str:
    """A share, and other values by name, as `flower-supernode --node-config` takes them.

    >>> node_config(DataPartition(0, 4, split="iid"), {"pace": 0.5})
    'partition-id=0 num-partitions=4 dataset="digits" split="iid" seed=0 pace=0.5'
    """
    values = {name: getattr(share, name) for name in share.__dataclass_fields__}
    words = [
        f"{_WORDS.get(name, name.replace('_', '-'))}={_written(value)}"
        for name, value in {**values, **more}.items()
        if value is not None
    ]
    return " ".join(words)


def _written(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)
