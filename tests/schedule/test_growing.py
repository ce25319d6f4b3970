"""Timelines that grow with a run: what a policy sees, and what it cannot mean."""

from __future__ import annotations

from math import inf, nan

import numpy as np
import pytest

from favano.errors import BadInput
from favano.policies import Action, Buffered, Dispatch, Policy, ReceivedUpdate
from favano.schedule import VirtualClock
from favano.timing import Trace, traced_fleet

FLEET = traced_fleet(Trace((np.array([1.0]), np.array([2.0]))))


class Says(Policy):
    """Uses every update at once, and goes on with what the loss says."""

    sees = ("loss",)

    def start(self, seed: int) -> None:
        self.new: list[int] = []
        self.here: list[ReceivedUpdate] = []
        self.seen: list[tuple[int, float, float]] = []

    def join(self, client: int, now: float) -> None:
        self.new.append(client)

    def leave(self, client: int, now: float) -> None: ...

    def receive(self, update: ReceivedUpdate, now: float) -> None:
        self.here.append(update)

    def wakes(self) -> float:
        return inf

    def act(self, now: float) -> Action | None:
        if self.new:
            new, self.new = self.new, []
            return Action(dispatch=[Dispatch(client) for client in new])
        if not self.here:
            return None
        update = self.here.pop()
        return Action([update], [self.next(update)])

    def next(self, update: ReceivedUpdate) -> Dispatch:
        if update.loss > 9:
            return Dispatch(7)
        return Dispatch(update.client, steps=int(update.loss) if update.loss < 9 else None)


class Blind(Says):
    """Looks at what it has not asked for."""

    def next(self, update: ReceivedUpdate) -> Dispatch:
        return Dispatch(update.client, steps=int(update.delta_norm))


class Odd(Says):
    sees = ("weight",)


class Queue(Buffered):
    sees = ("loss",)


def test_the_clock_stands_still_until_it_has_learnt() -> None:
    """Jobs of 3 steps; client 0 ends at 3, client 1 at 6. The loss says how long the next is."""
    clock = VirtualClock(Says(local_steps=3), FLEET, 12.0, 0)
    assert clock.awaited == 0
    clock.learn([2.0])
    assert clock.timeline.schedule.time.tolist() == [3.0]
    assert clock.timeline.known.steps.tolist() == [3, 3, 2]
    assert clock.awaited == 2
    clock.learn([nan])  # all its steps again
    assert clock.awaited == 1
    again = clock.again(clock.learnt)
    for other in (clock, again):
        while other.awaited is not None:
            other.learn([1.0])
    assert clock.timeline.schedule.time.tolist()[:4] == [3.0, 5.0, 6.0, 8.0]
    for name in ("time", "client", "steps", "used_by", "begin", "finish"):
        first, second = (getattr(each.timeline.schedule, name) for each in (clock, again))
        assert first.tolist() == second.tolist()


@pytest.mark.parametrize(
    ("loss", "rule"),
    [
        (10.0, r"policy=Says: dispatches client 7, which is not there \(time 3\)"),
        (5.0, r"policy=Says: dispatches client 0 for 5 steps; need 1..3 \(time 3\)"),
        (inf, r"policy=Says: dispatches client 7, which is not there \(time 3\)"),
    ],
)
def test_nonsense_is_refused_when_the_value_is_known(loss: float, rule: str) -> None:
    clock = VirtualClock(Says(local_steps=3), FLEET, 12.0, 0)
    with pytest.raises(BadInput, match=rule):
        clock.learn([loss])


def test_what_is_not_asked_for_cannot_be_seen() -> None:
    clock = VirtualClock(Blind(local_steps=3), FLEET, 12.0, 0)
    with pytest.raises(BadInput, match="policy=Blind: raises AttributeError: delta_norm is for"):
        clock.learn([1.0])
    with pytest.raises(BadInput, match="policy=Odd: sees 'weight'; known: loss, delta_norm, "):
        VirtualClock(Odd(), FLEET, 12.0, 0)
    with pytest.raises(BadInput, match="policy=Queue: sees values, and queues jobs of clients"):
        VirtualClock(Queue(hand_out="uniform"), FLEET, 12.0, 0)
