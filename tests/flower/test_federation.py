"""A whole federation on loopback: nodes of different speeds learn the digits, though some die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr")

import torch
from flwr.app import ArrayRecord

from favano.data import BatchStream
from favano.flower import AsyncStrategy, LocalTraining, Share
from favano.flower.flat_arrays import flat_arrays
from favano.flower.rounds import AsyncResult
from favano.flower.supernode import node_config
from favano.methods import make_method
from favano.run.replay import divergence, replay
from favano.training import FlatModel, LoopTrainer, Task, check_fit
from tests.flower.federation import Federation, federation, nodes, wait_for

PACES = (0.01, 0.02, 0.1, 0.3)  # seconds of a step
APP = "from favano.flower import share\n\napp = share.app\n"
LOCAL = LocalTraining(batch_size=16)


def share(part: int = 0) -> Share:
    return Share(part, len(PACES))


def initial() -> ArrayRecord:
    return ArrayRecord(share().network().state_dict())


def accuracy(arrays: ArrayRecord) -> float:
    module, (images, labels) = share().network(), share().test_data()
    module.load_state_dict(arrays.to_torch_state_dict())
    with torch.no_grad():
        right = module(images).argmax(dim=1) == labels
    return float(right.double().mean())


class Nodes:
    """One node for each pace, which has one part of the digits; the last may be a stock one."""

    def __init__(self, one: Federation, *, stock: bool = False) -> None:
        self._one, count = one, len(PACES)
        resident = range(count - stock)
        self.children = [self._start(part) for part in resident]
        if stock:
            config = node_config(share(count - 1), PACES[-1])
            self.children.append(one.stock_node(config))

    def _start(self, part: int) -> subprocess.Popen[bytes]:
        words = ["--partition", f"{part}/{len(PACES)}", "--pace", str(PACES[part])]
        return self._one.start(sys.executable, "-m", "favano", "join", self._one.address, *words)

    def kill(self, part: int) -> None:
        """Kill a node."""
        self.children[part].kill()
        self.children[part].wait()

    def kill_client_app(self) -> None:
        """Kill the process in which a stock node trains, as soon as there is one."""
        (process, *_) = wait_for(lambda: self._one.alive("flwr-clientapp"), "a client app")
        os.kill(process, signal.SIGKILL)


def strategy(folder: Path, tick: float) -> AsyncStrategy:
    return AsyncStrategy(
        make_method("favano", {}), clients=len(PACES), selected=2, tick=tick, grace=tick / 2,
        local_steps=20, learning_rate=1.0, local=LOCAL, step_seconds=0.1, folder=folder,
    )  # fmt: skip


def simulated(run: AsyncStrategy, result: AsyncResult) -> ArrayRecord:
    """What the simulator makes of the trace."""
    assert result.trace is not None
    data = [share(max(part, 0)).data() for part in result.trace.partitions.tolist()]
    inputs, targets = (torch.cat(parts) for parts in zip(*data, strict=True))
    own = np.split(np.arange(len(targets)), np.cumsum([len(labels) for _, labels in data])[:-1])
    flat = FlatModel(share().network(), device="cpu")
    task = Task(inputs, targets, BatchStream(own, LOCAL.batch_size, run.seed))
    check_fit(flat, task, 10)
    trainer, start = LoopTrainer(flat, task, LOCAL.rule()), initial()
    arrays = flat_arrays(start)
    return arrays.arrays(replay(result.trace, run.bound, trainer, arrays.vector(start)))


def learned(
    folder: Path,
    rounds: int,
    *,
    tick: float = 1.0,
    stock: bool = False,
    meanwhile: Callable[[Nodes], None] = lambda nodes: None,
) -> AsyncResult:
    """What four nodes learned; the simulator makes the same model of the trace, to the bit."""
    run = strategy(folder / "server", tick)
    with federation(folder) as one:
        one.start_superlink()
        one.submit(APP)
        mine = Nodes(one, stock=stock)
        with one.served() as claimed:
            nodes(claimed.grid, len(PACES))
            other = threading.Thread(target=meanwhile, args=(mine,))
            other.start()
            result = run.start(claimed.grid, initial(), rounds, timeout=30.0)
            other.join()
    again = simulated(run, result)
    found = divergence(*(flat_arrays(one).vector(one) for one in (result.arrays, again)))
    assert found.equal, found
    assert [one.number for one in result.rounds] == list(range(1, rounds + 1))
    return result


@pytest.mark.slow
def test_four_uneven_nodes_learn_the_digits_as_in_the_simulator(tmp_path: Path) -> None:
    result = learned(tmp_path, 40)
    assert {one.client for one in result.nodes if one.contacts} == {0, 1, 2, 3}
    assert accuracy(result.arrays) > 0.3
    assert result.refusals == 0


@pytest.mark.slow
def test_a_node_that_is_killed_is_done_without(tmp_path: Path) -> None:
    """Flower tells of it within a minute; ticks until then wait for it no longer than `grace`."""
    result = learned(tmp_path, 60, meanwhile=lambda nodes: nodes.kill(0))
    contacts = sorted(one.contacts for one in result.nodes)
    assert contacts[0] <= 2
    assert contacts[1] >= 10


@pytest.mark.slow
def test_a_client_app_that_is_killed_is_called_again(tmp_path: Path) -> None:
    result = learned(tmp_path, 20, tick=6.0, stock=True, meanwhile=Nodes.kill_client_app)
    assert all(one.contacts for one in result.nodes)


@pytest.mark.slow
def test_a_server_that_is_killed_goes_on_and_ends_as_in_the_simulator(tmp_path: Path) -> None:
    """All by commands: serve, join, serve again with --resume, replay."""
    with federation(tmp_path) as one:
        favano = [sys.executable, "-m", "favano"]
        words = (
            f"--dataset digits --split iid --clients 2 --selected 1 --learning-rate 0.5 --tick 1 "
            f"--grace 0.5 --rounds 20 --port {one.port} --out out"
        ).split()
        first = one.start(*favano, "serve", *words)
        for part in range(2):
            one.start(*favano, "join", one.address, "--partition", f"{part}/2")
        wait_for(lambda: "round 6:" in one.log(first), "round 6")
        first.kill()
        first.wait()
        second = one.start(*favano, "serve", *words, "--resume")
        wait_for(lambda: second.poll() is not None, "the end")
        assert second.returncode == 0, one.log(second)
        assert "round 20:" in one.log(second)
        assert "round 1:" not in one.log(second)
        last = one.start(*favano, "replay", "out")
        assert last.wait() == 0, one.log(last)
        assert "equal to the bit" in one.log(last)
