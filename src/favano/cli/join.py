"""`favano join`: a node of a federation, in one command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from favano.cli.shell import leave, need_flower, say
from favano.errors import require

Address = Annotated[str, typer.Argument(metavar="HOST:PORT", help="address of the server")]
Partition = Annotated[
    str, typer.Option(metavar="I/N", help="part I of N of the data set, counted from 0")
]
Dataset = Annotated[str, typer.Option(help="the data set, as for favano run")]
Data = Annotated[Path | None, typer.Option(metavar="DIR", help="folder of its files")]
Split = Annotated[str | None, typer.Option(help="how it is split, as for favano serve")]
Model = Annotated[str | None, typer.Option(help="the network, as for favano run")]
Seed = Annotated[int, typer.Option(help="seed of the split")]
Certificate = Annotated[
    Path | None, typer.Option(metavar="FILE", help="authority.crt of favano keys, for TLS")
]
Key = Annotated[Path | None, typer.Option(metavar="FILE", help="key of this node")]
Operator = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="operator.yaml of favano keys: whose calls are answered"),
]
Insecure = Annotated[
    bool, typer.Option("--insecure", help="plaintext and unsigned calls, also from other machines")
]
LeastBatch = Annotated[
    int, typer.Option(metavar="N", help="fewest samples of a batch and behind a client update")
]
LeastStepsApart = Annotated[
    int,
    typer.Option(
        metavar="N", help="fewest steps between the model that comes and the client update"
    ),
]
Methods = Annotated[
    str, typer.Option(metavar="NAMES", help="methods to take part in, by commas; any by default")
]
Resident = Annotated[
    bool,
    typer.Option(
        "--resident/--by-appointment",
        help="one process that stays loaded, or a stock SuperNode: a process per call",
    ),
]
Device = Annotated[str, typer.Option(help="cpu, cuda or cuda:N")]
State = Annotated[
    Path | None, typer.Option(metavar="FILE", help="what the client keeps from job to job")
]
Pace = Annotated[float, typer.Option(help="seconds that a step takes at least, for trials")]
Patience = Annotated[float, typer.Option(help="seconds to wait for a server that is not there")]


def join_command(
    address: Address,
    partition: Partition,
    dataset: Dataset = "digits",
    data: Data = None,
    split: Split = None,
    model: Model = None,
    seed: Seed = 0,
    root_certificate: Certificate = None,
    key: Key = None,
    operator: Operator = None,
    insecure: Insecure = False,
    resident: Resident = True,
    device: Device = "cpu",
    state: State = None,
    pace: Pace = 0.0,
    patience: Patience = 600.0,
    least_batch: LeastBatch = 4,
    least_steps_apart: LeastStepsApart = 1,
    methods: Methods = "",
) -> None:
    """Join a federation with a share of a data set, and train when called.

    A server on another machine needs --root-certificate, --key and --operator: three files that its
    operator makes with favano keys and gives you. Which calls were answered is remembered in a file
    beside the key. With your own network and data, use favano.flower.join from Python.
    """
    need_flower()
    from favano.flower.addresses import check_address
    from favano.flower.data_partition import DataPartition
    from favano.flower.limits import Limits, method_names
    from favano.flower.memory import FileStore
    from favano.flower.node import check_files, join
    from favano.flower.private import CallRefused
    from favano.flower.supernode import Stock, become_supernode

    check_address(address, secure=root_certificate is not None, insecure=insecure)
    check_files(root_certificate, key, operator)
    limits = Limits(least_batch, least_steps_apart, method_names(methods))
    place, _, count = partition.partition("/")
    require(place.isdecimal() and count.isdecimal(), "partition", partition, "need I/N, as 0/4")
    folder = None if data is None else str(data.absolute())
    share = DataPartition(int(place), int(count), dataset, split, model, seed, folder)
    if not resident:
        become_supernode(address, share, Stock(root_certificate, key, operator, pace, limits))
    store = None if state is None else FileStore(state)
    client = share.client(device=device, store=store, pace=pace, limits=limits)
    try:
        join(
            client,
            address,
            root_certificate=root_certificate,
            key=key,
            operator=operator,
            insecure=insecure,
            patience=patience,
            say=say,
        )
    except CallRefused as error:
        leave(f"not let in by {address}: {error}", code=1)
    except KeyboardInterrupt:
        leave("left the federation")
