"""A whole federation on loopback, by its commands: a server, four uneven nodes, and kill -9."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("flwr")

from favano.run.replay import replay_folder
from tests.flower.federation import Federation, federation, wait_for

PACES = (0.01, 0.02, 0.04, 0.1)
ROUNDS = 24
FAVANO = (sys.executable, "-m", "favano")


def server(lab: Federation, *more: str) -> subprocess.Popen[bytes]:
    flags = {
        "dataset": "digits", "split": "iid", "clients": 4, "selected": 2, "learning-rate": 0.5,
        "local-steps": 20, "batch-size": 32, "tick": 1.5, "grace": 0.5, "rounds": ROUNDS,
        "port": lab.port, "out": lab.folder,
    }  # fmt: skip
    words = [word for name, value in flags.items() for word in (f"--{name}", str(value))]
    return lab.start(*FAVANO, "serve", *words, *more)


def node(lab: Federation, number: int) -> subprocess.Popen[bytes]:
    share = ["--partition", f"{number}/4", "--pace", str(PACES[number])]
    return lab.start(*FAVANO, "join", lab.address, *share)


def rounds(lab: Federation, child: subprocess.Popen[bytes]) -> list[int]:
    """Rounds that a server has told of."""
    return [int(found) for found in re.findall(r"round (\d+): loss", lab.log(child))]


def finish(lab: Federation, child: subprocess.Popen[bytes]) -> float:
    """Wait for a server, and return the accuracy of its model."""
    wait_for(lambda: child.poll() is not None, "the end of the federation")
    assert child.returncode == 0, lab.log(child)
    return float(re.findall(r"accuracy ([\d.]+)", lab.log(child))[-1])


@pytest.mark.slow
def test_four_uneven_nodes_learn_the_digits(tmp_path: Path) -> None:
    with federation(tmp_path) as lab:
        serving = server(lab)
        for number in range(4):
            node(lab, number)
        accuracy = finish(lab, serving)
        assert rounds(lab, serving) == list(range(ROUNDS + 1))
    assert accuracy > 0.4
    assert replay_folder(tmp_path).equal


@pytest.mark.slow
def test_it_survives_the_death_of_a_node_and_of_the_server(tmp_path: Path) -> None:
    with federation(tmp_path) as lab:
        serving = server(lab)
        nodes = [node(lab, number) for number in range(4)]
        wait_for(lambda: 5 in rounds(lab, serving), "round 5")
        os.kill(nodes[0].pid, signal.SIGKILL)
        wait_for(lambda: 8 in rounds(lab, serving), "round 8")
        os.kill(serving.pid, signal.SIGKILL)
        serving.wait()
        again = server(lab, "--resume")
        node(lab, 0)  # as a new node, in the place of the old one
        assert finish(lab, again) > 0.3
        assert min(rounds(lab, again)) > 4
    assert replay_folder(tmp_path).equal
