"""Seconds per contact of stock and resident nodes on loopback, for empty jobs.

PYTHONPATH=src:. python benchmarks/contacts.py [stock resident resident-with-keys] [--contacts 6]
                                               [--parameters 1000 700000] [--out FILE.json]

With keys, all is encrypted, and calls are signed and checked.
"""

from __future__ import annotations

import argparse
import os
import subprocess
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import monotonic

import torch
from measurement import Document, heading, write
from tests.flower.calls import call
from tests.flower.federation import Federation, federation, nodes, replies

from favano.flower.keys import make_keys
from favano.flower.payload import pack, shape_of
from favano.flower.signed_calls import signer_of
from favano.flower.wire import call_message, content_bytes, read_reply
from favano.training import FlatModel

PROBLEM = """
import torch

def network():
    return torch.nn.Linear({inputs}, 10, bias=False)

def data():
    return torch.ones(8, {inputs}), torch.zeros(8, dtype=torch.long)
"""
STOCK = """
from favano.flower import client_app
app = client_app(network, data())
"""
RESIDENT = """
import sys
from pathlib import Path
from favano.flower import Client, join
names = "root_certificate", "key", "operator"
join(Client(network, data()), sys.argv[1], **dict(zip(names, map(Path, sys.argv[2:]))))
"""


def start_node(loopback: Federation, kind: str, problem: str) -> subprocess.Popen[bytes]:
    if kind == "stock":
        return loopback.stock_node()
    keys, names = loopback.link.keys, ("authority.crt", "lab", "operator.yaml")
    files = [] if keys is None else [str(keys / name) for name in names]
    return loopback.python(problem + RESIDENT, loopback.address, *files)


def contacts(kind: str, inputs: int, count: int) -> Document:
    """Time from handing out a model to having the reply, one contact after the other."""
    problem = PROBLEM.format(inputs=inputs)
    flat = FlatModel(torch.nn.Linear(inputs, 10, bias=False), device="cpu")
    model = pack(flat.snapshot(), shape_of(flat))
    taken: list[float] = []
    with TemporaryDirectory() as folder, federation(Path(folder)) as loopback:
        keys, sign = None, None
        if kind.endswith("keys"):
            keys = loopback.folder / "keys"
            make_keys(keys, [], ["lab"])
            sign = signer_of(keys / "operator.key", loopback.folder)
        loopback.start_superlink(problem + STOCK, keys=keys)
        loopback.link.register_nodes(print)
        loopback.link.submit()
        start_node(loopback, kind, problem)
        with loopback.served() as run:
            (node,) = nodes(run.grid, 1)
            for job in range(count + 1):
                message = call_message(call(model, job=job, steps=0), node, sign=sign)
                began = monotonic()
                (reply,) = replies(run.grid, list(run.grid.push_messages([message])))
                taken.append(monotonic() - began)
                assert read_reply(reply).model == model
            size = content_bytes(message)
    first, *rest = [round(seconds, 3) for seconds in taken]
    return {
        "node": kind, "parameters": 10 * inputs, "bytes_each_way": size,
        "seconds": rest, "median": round(median(rest), 3), "first": first,
        "load": round(os.getloadavg()[0], 1),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("kinds", nargs="*", default=["stock", "resident", "resident-with-keys"])
    parser.add_argument("--contacts", type=int, default=6)
    parser.add_argument("--parameters", type=int, nargs="*", default=[1000, 700_000])
    parser.add_argument("--out", type=Path, help="write the results as JSON")
    asked = parser.parse_args()
    documents: list[Document] = []
    for parameters in asked.parameters:
        for kind in asked.kinds:
            documents.append(contacts(kind, parameters // 10, asked.contacts))
            print(documents[-1], flush=True)
    if asked.out:
        write(asked.out, heading("contacts.py") | {"contacts": documents})


if __name__ == "__main__":
    main()
