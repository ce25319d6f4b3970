"""The table of jobs: rows of several runs, also of runs that grow, and columns that grow."""

from __future__ import annotations

import numpy as np
import pytest

from favano.aggregation import Aggregator
from favano.engine import job_table
from favano.engine.job_table import JobTable
from favano.methods import State
from favano.methods.asyncfeded import AsyncFedED
from favano.methods.favano import Favano
from favano.schedule import VirtualClock
from tests.methods.bound import any_method, bound, scheduled
from tests.problems import make_aggregator, start_model


def favano(seed: int) -> Aggregator[State]:
    method = any_method(bound(Favano(reweight="none"), 6, 4, selected=2))
    return make_aggregator(method, scheduled(method, 70, seed=seed), start_model())


def growing() -> Aggregator[State]:
    method = any_method(bound(AsyncFedED(), 5, 3))
    policy = AsyncFedED().bind(method.context).policy()
    clock = VirtualClock(policy, method.context.fleet, 60.0, 0)
    return make_aggregator(method, clock, start_model())


def check(table: JobTable, number: int, run: Aggregator[State], first_client: int) -> None:
    """The columns of a run are those of its course."""
    known, jobs = run.timeline.known, table.of(number)
    assert len(jobs) == len(known.client) > 0
    assert (table.run[jobs] == number).all()
    assert table.client_in_run[jobs].tolist() == known.client.tolist()
    assert table.client[jobs].tolist() == (first_client + known.client).tolist()
    for name in ("steps", "first_step", "start_version"):
        assert getattr(table, name)[jobs].tolist() == getattr(known, name).tolist()
    assert table.due[jobs].tolist() == run.timeline.due.tolist()
    assert table.rate[jobs].tolist() == run.rates.tolist()
    assert table.finite[jobs].all()


@pytest.mark.parametrize("room", [1, 7, 1024])
def test_runs_share_the_table_whatever_its_room(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_table, "_FIRST_ROOM", room)
    runs, table = [favano(0), growing(), favano(1)], JobTable(3)
    for number, run in enumerate(runs):
        table.add(number, run, 10 * number)
    marked = table.of(0)
    table.start[marked] = np.arange(len(marked))
    grown = runs[1]
    before = table.of(1).copy()
    assert grown.clock is not None
    while grown.clock.awaited is not None:
        grown.clock.learn([0.0, 1.0])
        table.add(1, grown, 10)
        jobs = grown.timeline.jobs(grown.timeline.updates - 1)
        assert table.update[table.of(1)[jobs]].tolist() == [grown.timeline.updates - 1]
    assert len(table.of(1)) > len(before)
    assert table.of(1)[: len(before)].tolist() == before.tolist()
    for number, run in enumerate(runs):
        check(table, number, run, 10 * number)
    assert len({job for number in range(3) for job in table.of(number).tolist()}) == sum(
        len(table.of(number)) for number in range(3)
    )
    assert table.start[marked].tolist() == list(range(len(marked)))


def test_updates_are_noted_where_they_are_known() -> None:
    complete, grows, table = favano(0), growing(), JobTable(2)
    table.add(0, complete, 0)
    table.add(1, grows, 6)
    assert table.update[table.of(0)].tolist() == complete.schedule.used_by.tolist()
    assert set(table.update[table.of(1)].tolist()) == {-1}


def test_a_run_that_has_ended_is_forgotten() -> None:
    table = JobTable(2)
    table.add(0, favano(0), 0)
    table.add(1, favano(1), 6)
    table.forget(0)
    assert len(table.of(0)) == 0
    check(table, 1, favano(1), 6)
