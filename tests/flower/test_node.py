"""Nodes on loopback: stock and resident ones answer the same calls with the same models."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("flwr")

from favano.flower import Client
from favano.flower.payload import pack, shape_of
from favano.flower.wire import call_message, read_reply
from favano.training import FlatModel
from tests.flower.calls import call, data_of, network
from tests.flower.federation import federation, nodes, replies

STOCK = """
from favano.flower import client_app
from tests.flower.calls import data_of, network

app = client_app(network, lambda context: data_of(int(context.node_config["partition-id"])))
"""
RESIDENT = """
import sys
from favano.flower import Client
from favano.flower.node import Link, serve
from tests.flower.calls import data_of, network

client = Client(network, data_of(int(sys.argv[2])))
serve(client, Link(sys.argv[1], patience=30.0), say=lambda text: print(text, flush=True))
"""


def start_model() -> bytes:
    flat = FlatModel(network(), device="cpu")
    return pack(flat.snapshot(), shape_of(flat))


def test_stock_and_resident_nodes_answer_alike(tmp_path: Path) -> None:
    with federation(tmp_path) as one:
        one.start_superlink()
        one.submit(STOCK)
        one.python(RESIDENT, one.address, "1")
        one.stock_node("partition-id=1")
        with one.served() as run:
            here = nodes(run.grid, 2)
            asked = call(start_model())
            names = list(run.grid.push_messages([call_message(asked, node) for node in here]))
            found = [read_reply(reply) for reply in replies(run.grid, names)]
    expected = Client(network, data_of(1)).reply(asked)
    assert [reply.model for reply in found] == 2 * [expected.model]
