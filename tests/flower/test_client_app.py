"""A stock node among resident ones, whose client app is killed in the middle of a job."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

pytest.importorskip("flwr")

from favano.run.replay import replay_folder
from tests.flower.federation import federation, wait_for
from tests.flower.test_loopback import FAVANO, finish, node, server


@pytest.mark.slow
def test_a_client_app_that_is_killed_is_done_without(tmp_path: Path) -> None:
    with federation(tmp_path) as lab:
        serving = server(lab, "--tick", "5", "--grace", "2", "--rounds", "14")
        for number in range(3):
            node(lab, number)
        lab.start(*FAVANO, "join", lab.address, "--partition", "3/4", "--by-appointment")
        (process, *_) = wait_for(lambda: lab.alive("flwr-clientapp"), "a client app")
        os.kill(process, signal.SIGKILL)
        finish(lab, serving)
    assert replay_folder(tmp_path).equal
