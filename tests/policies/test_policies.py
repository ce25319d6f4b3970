"""Policies refuse what cannot be."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from favano.errors import BadInput
from favano.policies import Buffered, Polling, Rounds, Windowed


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Polling(selected=0, local_steps=1), "selected=0: need at least 1"),
        (lambda: Polling(selected=1, local_steps=0), "local_steps=0: need at least 1"),
        (
            lambda: Polling(selected=1, local_steps=1, waiting_time=-1),
            r"waiting_time=-1\.0: need a time",
        ),
        (
            lambda: Polling(selected=1, local_steps=1, waiting_time=0, interaction_time=0),
            "need a positive server step",
        ),
        (lambda: Rounds(selected=3, local_steps=1, wait_for=4), r"buffer=4: need 1..selected"),
        (lambda: Rounds(selected=3, local_steps=1, deadline=0), r"deadline=0\.0: need a positive"),
        (lambda: Buffered(buffer=0, local_steps=1, hand_out="flush"), "buffer=0: need at least 1"),
        (
            lambda: Buffered(buffer=1, local_steps=1, hand_out="flush", concurrency=0),
            "concurrency=0: need at least 1",
        ),
        (
            lambda: Buffered(buffer=1, local_steps=1, hand_out="flush", max_staleness=-1),
            "max_staleness=-1: need at least 0",
        ),
        (lambda: Windowed(period=0, local_steps=1), r"period=0\.0: need a positive time"),
    ],
)
def test_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        make()
