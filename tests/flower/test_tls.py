"""A whole federation over TLS, by its commands: registered nodes train, all others stay outside."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("flwr")

from favano.run.replay import replay_folder
from favano.schedule.contact_trace import load_trace
from tests.flower.federation import federation, wait_for
from tests.flower.loopback import FAVANO, Loopback

ROUNDS = 6


@pytest.mark.slow
def test_registered_nodes_train_and_others_stay_outside(tmp_path: Path) -> None:
    keys, other = tmp_path / "keys", tmp_path / "other"
    with federation(tmp_path) as lab:
        for folder, names in ((keys, ["lab", "ward"]), (other, ["stranger"])):
            nodes = [word for name in names for word in ("--node", name)]
            assert lab.start(*FAVANO, "keys", str(folder), *nodes).wait() == 0
        one = Loopback(lab, tick=2.0, rounds=ROUNDS, keys=keys)
        one.serve()
        wait_for(lambda: "nodes join at" in one.told, "the server")

        def secure(authority: Path, key: Path) -> tuple[str, ...]:
            return "--root-certificate", str(authority / "authority.crt"), "--key", str(key)

        unregistered = one.join(2, *secure(keys, other / "stranger"))
        deceived = one.join(2, *secure(other, keys / "lab"), "--patience", "1")
        plain = one.join(2, "--patience", "1")
        for child in (deceived, plain):
            assert child.wait() == 1, lab.log(child)
            assert "not let in" in lab.log(child)
        assert "certificate" in lab.log(deceived)
        wait_for(lambda: "its key is not registered" in lab.log(unregistered), "a refusal")

        for number, name in enumerate(("lab", "ward")):
            one.join(number, *secure(keys, keys / name))
        one.finish()
        assert "connected" not in lab.log(unregistered)
        assert one.told.count(" joins ") == 2
        assert one.rounds() == list(range(ROUNDS + 1))
    steps = load_trace(tmp_path / "trace.npz").schedule.steps
    assert steps.sum() > 0
    assert replay_folder(tmp_path).equal
