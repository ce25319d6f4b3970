"""Flower: `run_simulation` with its default backend, Ray; one CPU per client actor.

Equal work: the client app takes exactly 20 steps of 128 with `torch.optim.SGD` in the same loop
as `plain.py`; `FedAvg` samples 20 of 100 nodes and averages; no evaluation. Every actor makes the
samples once, in the warm-up. `start` is called for a few rounds at a time, because it cannot be
told to stop.
"""

from __future__ import annotations

import os

import torch
from common import (
    CLASSES,
    CLIENTS,
    HIDDEN,
    INPUTS,
    SAMPLES,
    SELECTED,
    Meter,
    samples,
    seconds_argument,
)
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from plain import train
from torch import nn

ROUNDS_AT_A_TIME = 5


def perceptron() -> nn.Module:
    """The network."""
    return nn.Sequential(nn.Linear(INPUTS, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES))


client_app = ClientApp()


@client_app.train()
def local_training(message: Message, context: Context) -> Message:
    """Train the received model on the samples of this node."""
    model = perceptron()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    client = int(context.node_config["partition-id"])
    images, labels = samples()
    train(model, torch.from_numpy(images[client]), torch.from_numpy(labels[client]))
    content = {
        "arrays": ArrayRecord(model.state_dict()),
        "metrics": MetricRecord({"num-examples": SAMPLES}),
    }
    return Message(content=RecordDict(content), reply_to=message)


def count(replies: list[RecordDict], weighted_by_key: str) -> MetricRecord:
    """How many clients answered, in place of an average of their metrics."""
    return MetricRecord({"clients": len(replies)})


def main() -> None:
    """Rounds of federated averaging until the time is over."""
    meter = Meter("flower", seconds_argument())
    server_app = ServerApp()

    @server_app.main()
    def server(grid: Grid, context: Context) -> None:
        strategy = FedAvg(
            fraction_train=SELECTED / CLIENTS,
            fraction_evaluate=0.0,
            min_available_nodes=CLIENTS,
            train_metrics_aggr_fn=count,
        )
        arrays, done = ArrayRecord(perceptron().state_dict()), False
        while not done:
            result = strategy.start(grid, initial_arrays=arrays, num_rounds=ROUNDS_AT_A_TIME)
            arrays = result.arrays
            updates = [round["clients"] for round in result.train_metrics_clientapp.values()]
            assert updates == [SELECTED] * ROUNDS_AT_A_TIME, f"clients that answered: {updates}"
            done = meter.over(ROUNDS_AT_A_TIME)

    run_simulation(
        server_app,
        client_app,
        num_supernodes=CLIENTS,
        backend_config={
            "init_args": {"num_cpus": len(os.sched_getaffinity(0))},
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
        },
    )
    meter.report("flwr", "ray", "torch")


if __name__ == "__main__":
    from flower import main as importable  # so that actors import the client app, not unpickle it

    importable()
