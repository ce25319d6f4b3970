"""What plots show of availability and of jobs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from favano.engine.outcomes import LOST, NOT_USED, UNDER_WAY, USED, outcomes
from favano.planning.charts import availability_chart, job_chart
from favano.planning.participation import participation_of
from favano.planning.planned import plan_seed
from favano.policies import Rounds
from favano.records import participation_to_json
from favano.schedule import Schedule, plan
from favano.timing import Deterministic, client_speeds
from favano.timing.availability import Presence, TwoState
from tests.specs import complete

THREE = Presence(
    np.array([0, 1, 3, 3]), np.array([0.0, 0.0, 200.0]), np.array([300.0, 100.0, 250.5])
)  # always, half of the time, never


def test_availability_by_hand() -> None:
    chart = availability_chart(THREE, 300.0)
    assert chart.client == (0, 1, 2)
    assert chart.available == pytest.approx((1.0, 150.5 / 300, 0.0), rel=1e-5)
    assert chart.mean == pytest.approx((300 + 150.5) / 900)
    assert chart.median == pytest.approx(150.5 / 300)
    assert chart.digits[0] == "9" * 300
    assert chart.digits[1] == "9" * 100 + "0" * 100 + "9" * 50 + "4" + "0" * 49
    assert chart.digits[2] == "0" * 300
    expected = [2 / 3] * 100 + [1 / 3] * 100 + [2 / 3] * 50 + [0.5] + [1 / 3] * 49
    assert chart.share == pytest.approx(expected, rel=1e-5)


def test_a_digit_says_whether_a_client_was_there_all_of_a_part_or_none_of_it() -> None:
    short = Presence(np.array([0, 2]), np.array([0.0, 10.0]), np.array([0.01, 19.99]))
    (row,) = availability_chart(short, 300.0).digits
    assert row[:20] == "1" + "0" * 9 + "9" * 9 + "8"
    assert set(row[20:]) == {"0"}


def test_a_sample_of_many_clients_has_all_kinds() -> None:
    """Rows are at even ranks of availability; the share is over everybody."""
    presence = TwoState(100.0, 50.0).presence(0, np.arange(3000), 900.0)
    chart = availability_chart(presence, 900.0)
    share = presence.share(900.0)
    assert len(chart.client) == len(set(chart.client)) == 60
    assert list(chart.available) == sorted(chart.available, reverse=True)
    assert chart.available[0] == pytest.approx(share.max(), rel=1e-5)
    assert chart.available[-1] == pytest.approx(share.min(), rel=1e-5, abs=1e-9)
    middles = np.linspace(0, 900, 301)[:-1] + 1.5
    exact = [presence.at(np.arange(3000), time).mean() for time in middles]
    assert np.abs(np.array(chart.share) - exact).max() < 0.03
    assert np.mean(chart.share) == pytest.approx(share.mean(), rel=1e-4)


def four_jobs() -> Schedule:
    """Of two clients: used at 10, lost at 12, sent and dropped at 14, and one under way at 20."""
    return Schedule(
        clients=2,
        local_steps=3,
        time=np.array([10.0]),
        wasted_steps=np.array([0]),
        client=np.array([0, 1, 0, 1]),
        steps=np.array([3, 2, 3, 1]),
        start_version=np.array([-1, -1, 0, 0]),
        used_by=np.array([0, 1, 1, 1]),
        first_step=np.array([0, 0, 3, 2]),
        begin=np.array([0.0, 1.0, 10.0, 13.0]),
        finish=np.array([9.0, 12.0, 14.0, np.inf]),
        uploads=np.array([1, 0, 1, 0]),
    )


def test_jobs_by_hand() -> None:
    schedule = four_jobs()
    assert outcomes(schedule, 20.0).tolist() == [USED, LOST, NOT_USED, UNDER_WAY]
    chart = job_chart(schedule, client_speeds(np.array([4.0, 3.0])), 20.0)
    assert chart is not None
    assert (chart.begin, chart.end, chart.horizon) == (0.0, 20.0, 20.0)
    assert chart.at_work == 2
    assert chart.client == (1, 0)  # the fast one first
    assert chart.speed == (0, 1)
    assert chart.row == (1, 0, 1, 0)
    assert chart.start == (0.0, 1.0, 10.0, 13.0)
    assert chart.finish == (9.0, 12.0, 14.0, 20.0)
    assert chart.outcome == (USED, LOST, NOT_USED, UNDER_WAY)
    assert chart.used_by == (1, 0, 0, 0)
    assert (chart.server_steps, chart.server_steps_made) == ((10.0,), 1)


def test_without_a_word_on_messages_an_interrupted_job_is_lost() -> None:
    """Rounds of two clients that wait for the first one."""
    fleet = client_speeds(np.array([1.0, 5.0]), Deterministic())
    schedule = plan(Rounds(selected=2, local_steps=2, wait_for=1), fleet, horizon=40, seed=0)
    became = outcomes(schedule, 40.0)
    assert set(became[schedule.client == 0]) <= {USED, UNDER_WAY}
    assert set(became[schedule.client == 1]) <= {LOST, UNDER_WAY}
    assert LOST in became


@pytest.mark.parametrize("clients", [10, 2000])
def test_a_long_run_is_shown_from_its_beginning(clients: int) -> None:
    planned = plan_seed(complete(clients=clients, selected=5, horizon=1000), 0)
    chart = job_chart(planned.schedule, planned.fleet, 1000.0)
    assert chart is not None
    assert len(chart.client) == min(clients, 40)
    assert len(chart.row) <= 500
    assert 0 < chart.end <= chart.horizon == 1000.0
    schedule, shown = planned.schedule, np.isin(planned.schedule.client, chart.client)
    in_window = shown & (schedule.begin < chart.end)
    assert len(chart.row) >= in_window.sum() > 0
    assert len(chart.server_steps) <= 300
    assert chart.server_steps_made == (schedule.time <= chart.end).sum()


def test_nothing_has_begun() -> None:
    schedule = replace(four_jobs(), begin=np.full(4, np.inf), finish=np.full(4, np.inf),
                       check=False)  # fmt: skip
    assert job_chart(schedule, client_speeds(np.array([4.0, 3.0])), 20.0) is None


@pytest.mark.parametrize("clients", [10, 10_000])
def test_the_file_stays_small(clients: int) -> None:
    planned = plan_seed(complete(clients=clients, selected=5, horizon=200), 0)
    record = participation_of(planned)
    assert record is not None
    assert record.availability is None
    assert record.jobs is not None
    presence = TwoState(20.0, 20.0).presence(0, np.arange(clients), 200.0)
    bare = len(participation_to_json(replace(record, jobs=None)))
    full = replace(record, availability=availability_chart(presence, 200.0))
    assert len(participation_to_json(full)) - bare < 45_000
