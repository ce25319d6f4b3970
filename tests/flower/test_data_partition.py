"""A node's share of a named data set is that of the simulator's client."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("flwr")

from flwr.app import Context, RecordDict
from flwr.common.config import parse_config_args

from favano.errors import BadInput
from favano.flower.data_partition import DataPartition, app, partition_of
from favano.flower.keys import make_keys
from favano.flower.partitioning import Partitioning
from favano.flower.payload import pack, shape_of
from favano.flower.supernode import Stock, node_config, supernode_command
from favano.flower.wire import call_message, read_reply
from favano.run.samples import initial_module, load_samples, make_task, named_model
from favano.timing import client_speeds
from favano.training import FlatModel, Job, LocalRule, LoopTrainer
from tests.flower.calls import call, in_a_task
from tests.specs import complete


@pytest.fixture(autouse=True)
def _task() -> Iterator[None]:
    with in_a_task():
        yield


def simulated(seed: int, client: int) -> tuple[bytes, bytes]:
    """Start and end model of a simulated job on the digits."""
    spec = complete(dataset="digits", clients=5, selected=1, split="two-class", batch_size=4)
    samples = load_samples(spec)
    flat = FlatModel(named_model(spec, samples)(), device="cpu")
    task = make_task(spec, seed, client_speeds(np.ones(5)), samples)
    start, shape = flat.snapshot(), shape_of(flat)
    end = LoopTrainer(flat, task, LocalRule()).run(start, Job(0, client, 3, 5, 0.1))
    return pack(start, shape), pack(end, shape)


@pytest.mark.parametrize(("seed", "client"), [(0, 0), (2, 4)])
def test_a_job_ends_as_that_of_the_simulated_client(seed: int, client: int) -> None:
    start, end = simulated(seed, client)
    share = DataPartition(client, 5, split="two-class", seed=seed)
    asked = call(start, client=client, seed=seed, first_step=3)
    reply = share.client().reply(asked)
    assert reply.model == end
    dealt = Partitioning("digits", "two-class", 5, seed).number
    assert reply.metrics == {"partition": client, "deal": dealt}


def test_the_network_is_that_of_a_simulated_run() -> None:
    spec = complete(dataset="digits")
    expected = initial_module(named_model(spec, load_samples(spec)), 3).state_dict()
    state = DataPartition(0, 5).network(seed=3).state_dict()
    assert all(torch.equal(state[name], expected[name]) for name in expected)


def test_the_test_data_are_those_of_the_data_set() -> None:
    samples = load_samples(complete(dataset="digits"))
    images, labels = DataPartition(1, 5).test_data()
    assert torch.equal(images, samples.test_features)
    assert torch.equal(labels, samples.test_labels)


def test_a_stock_node_has_the_share_of_its_configuration() -> None:
    start, end = simulated(0, 4)
    config: dict[str, str | int | float | bool] = {
        "partition-id": 4, "num-partitions": 5, "split": "two-class", "pace": 0.0,
    }  # fmt: skip
    message = call_message(call(start, client=4, seed=0, first_step=3), 11)
    reply = app(message, Context(1, 1, config, RecordDict(), {}))
    assert read_reply(reply).model == end


def test_a_share_is_configured_as_it_is_read() -> None:
    share = DataPartition(2, 5, "mnist", "iid", "resnet20", 7, "/data/my files")
    assert partition_of(parse_config_args([node_config(share, {"pace": 0.25})])) == (share, 0.25)


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({}, "missing"),
        ({"partition-id": 0}, "partitions: is missing"),
        ({"partition-id": 5, "num-partitions": 5}, r"need 0\.\.4"),
        ({"partition-id": 0, "num-partitions": 0}, "need 1 or more"),
        ({"partition-id": "0", "num-partitions": 5}, "need a whole number"),
        ({"partition-id": 0, "num-partitions": 5, "colour": 1}, "unknown"),
        ({"partition-id": 0, "num-partitions": 5, "pace": "slow"}, "need a number"),
    ],
)
def test_a_bad_configuration_is_refused(config: dict[str, object], says: str) -> None:
    with pytest.raises(BadInput, match=says):
        partition_of(config)


def test_the_command_of_a_stock_node(tmp_path: Path) -> None:
    share, limits = DataPartition(0, 2), {"least-batch": 4, "least-steps-apart": 1, "methods": ""}
    plain = supernode_command("127.0.0.1:1", share, Stock(), port=9)
    assert plain == [
        "flower-supernode", "--insecure", "--superlink", "127.0.0.1:1", "--host", "127.0.0.1",
        "--port", "9", "--node-config", node_config(share, {"pace": 0.0, **limits}),
    ]  # fmt: skip
    make_keys(tmp_path, [], [])
    operator = tmp_path / "operator.yaml"
    files = Stock(Path("a.crt"), tmp_path / "lab", operator)
    secure = supernode_command("h:1", share, files, port=9)
    assert secure[1:7] == [
        "--root-certificates", "a.crt", "--auth-supernode-private-key", str(tmp_path / "lab"),
        "--trusted-entities", str(operator),
    ]  # fmt: skip
    assert "--insecure" not in secure
    config = parse_config_args([secure[-1]])
    assert config["operator"] == str(operator)
    assert config["calls"] == str(tmp_path / "lab.calls")
    assert partition_of(config) == (share, 0.0)


def test_a_stock_node_of_another_machine_needs_an_operator() -> None:
    with pytest.raises(BadInput, match="executes the app of whoever submits a run"):
        supernode_command("example.org:8000", DataPartition(0, 2), Stock(), port=9)
