"""A stock node among resident ones, whose client app is killed in the middle of a job."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

pytest.importorskip("flwr")

from favano.run.replay import replay_folder
from tests.flower.federation import federation, wait_for
from tests.flower.loopback import Loopback


@pytest.mark.slow
def test_a_client_app_that_is_killed_is_done_without(tmp_path: Path) -> None:
    with federation(tmp_path) as lab:
        one = Loopback(lab, tick=5.0, grace=2.0, rounds=14)
        one.serve()
        for number in range(3):
            one.join(number)
        one.join(3, "--by-appointment")
        (process, *_) = wait_for(lambda: lab.alive("flwr-clientapp"), "a client app")
        os.kill(process, signal.SIGKILL)
        one.finish()
    assert replay_folder(tmp_path).equal
