"""Events say everything: read again, they give the same course, and places stay whose they are."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("flwr")

from favano.flower.ledger import (
    Event,
    Joined,
    Ledger,
    Left,
    RefusedUpdate,
    Turned,
    UsedUpdate,
    changes,
    estimates_for,
    overdue,
)
from favano.policies import Buffered, Polling
from favano.schedule import Schedule
from favano.screening import Refusal
from favano.types import Floats

POLICY = Polling(selected=2, local_steps=4, waiting_time=7.0, interaction_time=0.0)


def rates(schedule: Schedule, now: float) -> Floats:
    return 0.1 * (1.0 + schedule.client.astype(np.float64))


def ledger(clients: int = 3) -> Ledger:
    estimates = estimates_for(POLICY, clients, step_seconds=1.0, lost=0.0)
    return Ledger(POLICY, clients, 5, rates, estimates=estimates)


def lived() -> tuple[Ledger, list[Event]]:
    """Some rounds in which a client leaves and comes back, and one is refused."""
    book, events = ledger(), list[Event]()

    def apply(event: Event) -> None:
        events.append(event)
        book.apply(event)

    for client in range(3):
        apply(Joined(0.0, client, 100 + client))
    for tick in range(1, 9):
        while (turn := book.turn_at(7.0 * tick - 7)) is not None:
            events.append(turn[0])
        due = [(job, opened) for job, opened in book.open.items() if opened.until <= 7.0 * tick]
        for number, (job, opened) in enumerate(sorted(due)):
            time = 7.0 * tick - 1
            if tick == 4 and number == 0:
                apply(RefusedUpdate(time, job, Refusal.NORM.value))
            else:
                apply(UsedUpdate(time, job, opened.client + 1, 2.0, partition=2 - opened.client))
        if tick == 5:
            apply(Left(7.0 * tick - 0.5, 1))
        if tick == 7:
            apply(Joined(7.0 * tick - 0.5, 1, 101))
    return book, events


def test_a_ledger_that_is_read_again_is_the_same() -> None:
    book, events = lived()
    again = ledger()
    for event in events:
        again.apply(event)
    assert again.length == book.length == len(events)
    for name in (
        "client",
        "steps",
        "start_version",
        "used_by",
        "first_step",
        "begin",
        "finish",
        "time",
    ):
        mine, theirs = (getattr(source.trace.schedule, name) for source in (again, book))
        np.testing.assert_array_equal(mine, theirs)
    for name in ("rate", "seconds", "positive", "mean", "partition", "nodes"):
        np.testing.assert_array_equal(getattr(again.trace, name), getattr(book.trace, name))
    assert (again.open, again.given_up) == (book.open, book.given_up)
    assert again.refused == book.refused
    assert again.wakes() == book.wakes()
    assert book.trace.schedule.updates >= 6
    trace = book.trace
    used = trace.schedule.used_by < trace.schedule.updates
    assert (trace.partition == 2 - trace.schedule.client)[used].all()


def test_a_turn_that_cannot_be_is_noticed() -> None:
    with pytest.raises(AssertionError, match="cannot be"):
        ledger().apply(Turned(1.0))


def test_numbers_are_given_once() -> None:
    book = ledger()

    def look(online: set[int], hung: set[int], now: float) -> list[Event]:
        seen: list[Event] = []
        for event in changes(book, online, hung, now):
            book.apply(event)
            seen.append(event)
        return seen

    assert look({30, 10}, set(), 1.0) == [Joined(1.0, 0, 10), Joined(1.0, 1, 30)]
    assert look({30, 10}, set(), 2.0) == []
    assert look({10, 20}, set(), 3.0) == [Left(3.0, 1), Joined(3.0, 2, 20)]
    assert look({10, 20, 30}, {1}, 4.0) == []  # it hangs
    assert look({10, 20, 40}, set(), 5.0) == [Joined(5.0, 1, 40)]  # in the place of node 30
    assert look({10, 20, 30, 40}, set(), 6.0) == []  # no place is left


def test_late_answers_are_given_up_in_the_end() -> None:
    book = ledger()
    for client in range(3):
        book.apply(Joined(0.0, client, 100 + client))
    assert book.turn_at(0.0) is not None
    first = min(opened.until for opened in book.open.values())
    assert overdue(book, first + 10.0, 10.0) == []
    late = overdue(book, first + 10.1, 10.0)
    assert late == sorted(opened.client for opened in book.open.values() if opened.until == first)


def began(clients: int = 3) -> Ledger:
    """Everybody is at work since time 0."""
    book = ledger(clients)
    for client in range(clients):
        book.apply(Joined(0.0, client, 100 + client))
    assert book.turn_at(0.0) is not None
    return book


def test_the_time_lost_is_that_since_the_call() -> None:
    """Called at 0 and at 7, answered 6 and 5 seconds later after 2 and 1 of training."""
    book = began()
    job, opened = next((job, opened) for job, opened in book.open.items() if opened.until == 7.0)
    book.apply(UsedUpdate(6.0, job, 3, 2.0))
    assert book.lost_seconds(opened.client) == 4.0
    assert book.turn_at(7.0) is not None
    (job,) = (job for job, other in book.open.items() if other.client == opened.client)
    assert book.open[job].begin == book.begin(job) == 7.0
    book.apply(UsedUpdate(12.0, job, 3, 1.0))
    assert book.lost_seconds(opened.client) == 4.0


def test_a_client_that_failed_is_away_until_it_joins_and_failing_until_it_answers() -> None:
    book = began(2)
    book.apply(Left(1.0, 1, "out of memory"))
    assert (book.present, book.away_since, book.failing) == ({0}, {1: 1.0}, {1: "out of memory"})
    book.apply(Joined(3.0, 1, 101))
    assert (book.present, book.away_since, book.failing) == ({0, 1}, {}, {1: "out of memory"})
    assert book.turn_at(3.0) is not None
    (job,) = (job for job, opened in book.open.items() if opened.client == 1)
    book.apply(UsedUpdate(5.0, job, 1, 1.0))
    assert book.failing == {}
    assert book.failures == {1: 1}


def test_the_refusal_of_an_answer_that_nobody_waits_for_ends_no_job() -> None:
    book = began(2)
    (old,) = (job for job, opened in book.open.items() if opened.client == 1)
    book.apply(Left(1.0, 1))
    book.apply(Joined(2.0, 1, 101))
    assert book.turn_at(2.0) is not None
    before = dict(book.open)
    book.apply(RefusedUpdate(3.0, old, Refusal.NORM.value))
    assert book.open == before
    assert book.given_up == {old}
    assert book.refused == {1: {Refusal.NORM: 1}}
    assert book.turn_at(3.0) is None
    (new,) = (job for job, opened in book.open.items() if opened.client == 1)
    book.apply(RefusedUpdate(4.0, new, Refusal.NORM.value))
    assert book.given_up == {old, new}
    turn = book.turn_at(4.0)
    assert turn is not None
    assert [dispatch.client for dispatch in turn[1].action.dispatch] == [1]


def test_which_models_are_sent_beside_others() -> None:
    """A model is whole where its client has none yet, or has the same one, sent whole, already."""
    policy = Buffered(buffer=2, local_steps=4, hand_out="arrival", interaction_time=0.0)
    book = Ledger(policy, 2, 5, rates, packed=True)

    def turn(time: float) -> None:
        while book.turn_at(time) is not None:
            pass

    for client in range(2):
        book.apply(Joined(0.0, client, 100 + client))
    turn(0.0)  # jobs 0 and 1
    book.apply(UsedUpdate(1.0, 0, 4, 1.0))
    turn(1.0)  # job 2, of client 0 from the same version
    assert book.open[2].key == 0
    book.apply(UsedUpdate(2.0, 1, 4, 1.0))
    turn(2.0)  # job 3, of client 1, and an update
    book.apply(UsedUpdate(3.0, 2, 4, 1.0))
    turn(3.0)  # job 4, of client 0 from the new version
    assert book.open[4].key == 2
    book.apply(Left(4.0, 0))
    book.apply(Joined(5.0, 0, 100))
    turn(5.0)  # job 5, of client 0, which may have forgotten everything
    assert book.open[5].key == -1
    assert book.timeline.known.client.tolist() == [0, 1, 0, 1, 0, 0]
    assert book.timeline.known.start_version.tolist() == [-1, -1, -1, -1, 0, 0]
    assert book.timeline.noted("whole").tolist() == [1, 1, 1, 1, 0, 1]
    assert book.timeline.noted("message").tolist() == [0, 0, 1, 1, 2, 3]
