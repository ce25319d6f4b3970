"""A whole federation over TLS, by its commands: registered nodes train, all others stay outside."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("flwr")

from favano.run.replay import replay_folder
from favano.schedule.contact_trace import load_trace
from tests.flower.federation import federation, wait_for
from tests.flower.loopback import FAVANO, Loopback, joined

ROUNDS = 6


def secure(authority: Path, key: Path) -> tuple[str, ...]:
    """The flags of a node that trusts this authority and has this key."""
    operator = "--operator", str(authority / "operator.yaml")
    certificate = "--root-certificate", str(authority / "authority.crt")
    return *certificate, "--key", str(key), *operator


@pytest.mark.machine
def test_registered_nodes_train_and_others_stay_outside(tmp_path: Path) -> None:
    keys, other = tmp_path / "keys", tmp_path / "other"
    with federation(tmp_path) as lab:
        for folder, names in ((keys, ["lab", "ward"]), (other, ["stranger"])):
            nodes = [word for name in names for word in ("--node", name)]
            assert lab.start(*FAVANO, "keys", str(folder), *nodes).wait() == 0
        loopback = Loopback(lab, tick=2.0, rounds=ROUNDS, keys=keys)
        loopback.serve()
        wait_for(lambda: "nodes join at" in loopback.told, "the server")

        unregistered = loopback.join(2, *secure(keys, other / "stranger"))
        deceived = loopback.join(2, *secure(other, keys / "lab"), "--patience", "1")
        plain = loopback.join(2, "--patience", "1")
        for child in (deceived, plain):
            assert child.wait() == 1, lab.log(child)
            assert "not let in" in lab.log(child)
        assert "certificate" in lab.log(deceived)
        wait_for(lambda: "its key is not registered" in lab.log(unregistered), "a refusal")

        for number, name in enumerate(("lab", "ward")):
            loopback.join(number, *secure(keys, keys / name))
        loopback.finish()
        assert "connected" not in lab.log(unregistered)
        assert len(joined(loopback.told)) == 2
        assert loopback.rounds() == list(range(ROUNDS + 1))
    steps = load_trace(tmp_path / "trace.npz").schedule.steps
    assert steps.sum() > 0
    assert replay_folder(tmp_path).equal


@pytest.mark.machine
def test_a_node_is_removed_while_the_server_runs_and_does_not_come_back(tmp_path: Path) -> None:
    """Nor after the server goes on; with a new key it does."""
    keys = tmp_path / "keys"
    with federation(tmp_path) as lab:

        def make(*words: str) -> None:
            assert lab.start(*FAVANO, "keys", str(keys), *words).wait() == 0

        make("--node", "lab", "--node", "ward")
        loopback = Loopback(lab, rounds=10_000, keys=keys)
        loopback.serve()
        wait_for(lambda: "nodes join at" in loopback.told, "the server")
        removed = loopback.join(0, *secure(keys, keys / "lab"))
        loopback.join(1, *secure(keys, keys / "ward"))
        wait_for(lambda: len(joined(loopback.told)) == 2, "both nodes")
        (tmp_path / "copy").write_bytes((keys / "lab").read_bytes())  # the node has its own
        make("--revoke", "lab")
        wait_for(lambda: "is let in no more" in loopback.told, "the removal")
        (gone,) = re.findall(r"node (\d+) is let in no more", loopback.told)
        kept = joined(loopback.told) - {gone}
        wait_for(
            lambda: " is gone " in loopback.told or "Flower did not take the call" in loopback.told,
            "the loss of a client",
        )
        wait_for(lambda: "does not let this node in" in lab.log(removed), "the node's word")
        before = len(loopback.rounds())
        wait_for(lambda: len(loopback.rounds()) > before + 2, "rounds of the other one")

        loopback.dismiss([loopback.servers[-1]])
        loopback.serve("--resume")
        wait_for(lambda: "nodes join at" in lab.log(loopback.servers[-1]), "the server again")
        stubborn = loopback.join(2, *secure(keys, tmp_path / "copy"))
        wait_for(lambda: "its key is not registered" in lab.log(stubborn), "a refusal")
        before = len(loopback.rounds())
        wait_for(lambda: len(loopback.rounds()) > before + 2, "rounds of the other one")
        assert joined(lab.log(loopback.servers[-1])) <= kept

        make("--node", "lab")
        loopback.join(3, *secure(keys, keys / "lab"))
        wait_for(lambda: joined(lab.log(loopback.servers[-1])) - kept - {gone}, "the new key")
