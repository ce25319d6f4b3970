"""Whom the model serves: the model of the final numbers, and no later one."""

from __future__ import annotations

import favano
from favano.specification.keys import Keys
from tests.run.test_observer import problem

KEYS: Keys = {
    "selected": 3, "local_steps": 4, "learning_rate": 0.3, "horizon": 100.0, "engine": "loop",
}  # fmt: skip
CUT: Keys = {**KEYS, "drop_last": True}


def test_a_round_that_ends_after_the_horizon_serves_nobody() -> None:
    fleet = favano.Fleet(clients=6)
    whole = favano.simulate("fedavg", problem(), fleet, **KEYS)
    cut = favano.simulate("fedavg", problem(), fleet, **CUT)
    assert whole.runs[0].time > 100.0
    assert whole.runs[0].loss != cut.runs[0].loss
    assert whole.final("loss") == cut.final("loss")
    assert whole.client_scores == cut.client_scores
