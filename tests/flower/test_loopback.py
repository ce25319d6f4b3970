"""A whole federation on loopback: a SuperLink, four nodes of different speeds, and our server."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("flwr")

import torch
from flwr.app import ArrayRecord, MetricRecord

from favano.flower.local_training import LocalTraining
from favano.flower.share import Share
from favano.flower.strategy import AsyncStrategy
from favano.methods import make_method
from favano.run.samples import initial_module
from tests.flower.federation import federation

NODES, PACES = 4, (0.02, 0.04, 0.08, 0.2)


@pytest.mark.slow
def test_four_uneven_nodes_learn_the_digits(tmp_path: Path) -> None:
    shares = [Share(number, NODES, "digits", "iid") for number in range(NODES)]
    spec, samples = shares[0]._loaded()
    from favano.run.samples import named_model

    model = initial_module(named_model(spec, samples), 0)
    images, labels = shares[0].test_data()

    def measure(number: int, arrays: ArrayRecord) -> MetricRecord:
        model.load_state_dict(arrays.to_torch_state_dict())
        with torch.no_grad():
            right = model(images).argmax(dim=1) == labels
        return MetricRecord({"accuracy": right.double().mean().item()})

    strategy = AsyncStrategy(
        make_method("favano", {}),
        clients=NODES,
        selected=2,
        tick=1.0,
        grace=0.5,
        local_steps=20,
        learning_rate=0.5,
        local=LocalTraining(batch_size=32),
        folder=tmp_path / "federation",
        say=print,
    )
    (tmp_path / "lab").mkdir()
    with federation(tmp_path / "lab") as lab:
        lab.start_superlink()
        lab.submit("from favano.flower import share\n\napp = share.app\n")
        for number, pace in enumerate(PACES):
            part = ["--partition", f"{number}/{NODES}", "--pace", str(pace)]
            lab.start(sys.executable, "-m", "favano", "join", lab.address, *part)
        with lab.served() as run:
            result = strategy.start(
                run.grid, ArrayRecord(model.state_dict()), 40, evaluate_fn=measure
            )
    print({n: r["accuracy"] for n, r in result.evaluate_metrics_serverapp.items()})
    print(*result.nodes, sep="\n")
    print([round(one.wait, 2) for one in result.rounds])
    print(result.trace.partitions)
