"""No more clients are at work than `concurrency`, counted from finished schedules."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from favano.policies import Buffered
from favano.schedule import Schedule, plan
from favano.timing import ClientSpeeds, Conditions, Geometric, Links, WhenAway, parse_availability

CLIENTS, HORIZON, LIMIT = 12, 150.0, 4


def most_at_work(schedule: Schedule) -> int:
    """The most clients that were at work at a time: a job lasts from its begin to its end."""
    begin, finish = np.round([schedule.begin, schedule.finish], 6)
    begun = begin[begin < finish]  # some never begin
    return int(((begin <= begun[:, None]) & (begun[:, None] < finish)).sum(axis=1).max(initial=0))


HAND_OUTS = {
    "flush": Buffered(buffer=3, hand_out="flush"),
    "arrival": Buffered(buffer=2, hand_out="arrival"),
    "idle": Buffered(buffer=2, hand_out="idle"),
    "distinct": Buffered(buffer=3, hand_out="idle", distinct=True),
    "uniform": Buffered(buffer=1, hand_out="uniform"),
    "check-in": Buffered(buffer=1, hand_out="check-in", check_in_rate=2.0),
}
LINKS = {
    "no links": None,
    "links": Links(np.full(CLIENTS, 0.5), np.full(CLIENTS, 1.5), server_down=0.2, server_up=0.7),
}


@pytest.mark.parametrize("links", LINKS)
@pytest.mark.parametrize("when_away", ["lost", "paused", "later"])
@pytest.mark.parametrize("hand_out", HAND_OUTS)
def test_concurrency_is_a_limit(hand_out: str, when_away: WhenAway, links: str) -> None:
    """Whoever spends the interaction time, and it is reached."""
    law = parse_availability("two-state:12:6")
    assert law is not None
    presence = law.presence(0, np.arange(CLIENTS), HORIZON)
    conditions = Conditions(presence=presence, when_away=when_away, links=LINKS[links])
    means = np.array([1.0, 2.0, 5.0] * (CLIENTS // 3))
    fleet = ClientSpeeds(means, Geometric(), np.arange(CLIENTS), conditions)
    most = dict[str, int]()
    for latency in ("server", "client", "none"):
        policy = replace(HAND_OUTS[hand_out], concurrency=LIMIT, local_steps=2, latency=latency)
        most[latency] = most_at_work(plan(policy, fleet, horizon=HORIZON, seed=1))
    assert most == {"server": LIMIT, "client": LIMIT, "none": LIMIT}
