from __future__ import annotations

from math import inf
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from favano.errors import BadInput
from favano.timing import parse_availability
from favano.timing.availability import (
    DAY,
    Daily,
    Presence,
    Recorded,
    TwoState,
    read_availability,
)

CLIENTS = np.arange(3)


def there(rows: list[list[tuple[int, int]]], client: int, time: float) -> bool:
    return any(begin <= time < end for begin, end in rows[client])


@st.composite
def recordings(draw: st.DrawFn) -> list[list[tuple[int, int]]]:
    """Intervals of three clients in 0..60."""
    rows = []
    for _ in CLIENTS:
        ends = sorted(draw(st.sets(st.integers(0, 60), max_size=8)))
        rows.append(list(zip(ends[::2], ends[1::2], strict=False)))
    return rows


def presence_of(rows: list[list[tuple[int, int]]], horizon: float = 60) -> Presence:
    arrays = [np.array(row, dtype=float).reshape(-1, 2) for row in rows]
    return Recorded(arrays).presence(0, CLIENTS, horizon)


@given(recordings(), st.integers(0, 60), st.integers(1, 60))
def test_times_by_counting_half_units(
    rows: list[list[tuple[int, int]]], since: int, work: int
) -> None:
    presence = presence_of(rows)
    halves = np.arange(0, 60, 0.5)
    for client in CLIENTS.tolist():
        inside = np.array([there(rows, client, time) for time in halves])
        assert presence.at(np.array([client]), halves).tolist() == inside.tolist()
        assert presence.time_there(np.array(client), since) == inside[: 2 * since].sum() / 2
        late = np.cumsum(inside[2 * since :]) / 2
        when = since + (np.argmax(late >= work) + 1) / 2 if (late >= work).any() else inf
        assert presence.after(np.array(client), since, work) == when
    assert presence.share(60.0).tolist() == [
        sum(end - begin for begin, end in row) / 60 for row in rows
    ]


@given(recordings())
def test_changes_tell_who_is_there(rows: list[list[tuple[int, int]]]) -> None:
    presence, now = presence_of(rows), set[int]()
    times, clients, comes = presence.changes()
    assert (np.diff(times) >= 0).all()
    for place, (time, client) in enumerate(zip(times.tolist(), clients.tolist(), strict=True)):
        assert (client in now) != comes[place]
        now ^= {client}
        if place + 1 == len(times) or times[place + 1] > time:
            assert now == {other for other in CLIENTS.tolist() if there(rows, other, time)}


@given(recordings(), st.floats(0, 59.9))
def test_clients_are_there_again_when_their_next_interval_begins(
    rows: list[list[tuple[int, int]]], time: float
) -> None:
    again = presence_of(rows).there_from(CLIENTS, time)
    for client in CLIENTS.tolist():
        later = [begin for begin, end in rows[client % len(rows)] if end > time and begin < end]
        assert again[client] == (max(time, min(later)) if later else np.inf)


def test_a_recording_begins_anew_and_copies_begin_elsewhere() -> None:
    law = Recorded([np.array([[0.0, 2.0], [9.0, 10.0]])], length=10.0)
    presence = law.presence(1, np.arange(2), 40.0)
    assert presence.begin[:5].tolist() == [0, 9, 19, 29, 39]
    assert presence.end[:5] == pytest.approx([2, 12, 22, 32, 40], rel=1e-5)
    assert presence.share(40.0) == pytest.approx(0.3)
    assert presence.begin[presence.first[1]] != 0


@pytest.mark.parametrize("law", [Daily(0.7, 3, day=10.0), TwoState(3.0, 1.0)])
def test_a_longer_horizon_only_adds_intervals(law: Daily | TwoState) -> None:
    streams, times = np.arange(50), np.linspace(0, 99, 200)
    short, long = (law.presence(4, streams, horizon) for horizon in (99.5, 1000.0))
    assert (short.at(streams[:, None], times) == long.at(streams[:, None], times)).all()
    assert long.share(1000.0).mean() == pytest.approx(0.75, abs=0.06)


def test_shares_of_the_laws() -> None:
    streams = np.arange(20_000)
    daily = Daily(0.7, 24).presence(0, streams, 30 * DAY)
    assert daily.share(30 * DAY) == pytest.approx(0.7)
    assert daily.at(streams, 12.3 * DAY).mean() == pytest.approx(0.7, abs=0.02)
    states = TwoState(30.0, 70.0).presence(0, streams, 500.0)
    for time in (0.0, 17.0, 499.0):
        assert states.at(streams, time).mean() == pytest.approx(0.3, abs=4 * 0.00325)
    assert states.first[1:].max() == len(states.begin)


def test_phones_are_there_a_sixth_of_the_time() -> None:
    law = parse_availability("phones")
    assert law is not None
    share = law.presence(0, np.arange(300), 6 * DAY).share(6 * DAY)
    assert share.mean() == pytest.approx(0.162, abs=0.001)
    assert np.median(share) == pytest.approx(0.129, abs=0.0005)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("client,second\n", "first line"),
        ("client,second,available\n", "holds no client"),
        ("client,second,available\n1,0,1\n", "client 0 has no line"),
        ("client,second,available\n0,0,2\n", "line 2"),
        ("client,second,available\n0,5,1\n0,4,0\n", "line 3"),
        ("client,second,available\n0,nan,1\n", "line 2"),
    ],
)
def test_bad_recordings_are_refused(tmp_path: Path, text: str, rule: str) -> None:
    path = tmp_path / "there.csv"
    path.write_text(text)
    with pytest.raises(BadInput, match=rule):
        read_availability(path)


@pytest.mark.parametrize(
    "text",
    ["dayly:0.5", "daily:0", "daily:1", "daily:0.5:1.5", "daily:nan", "daily:0.5:2:-1",
     "two-state:3", "two-state:0:1", "trace:", "trace:none.csv", "phones:2",
     "daily:x", "daily:0.5:inf"],
)  # fmt: skip
def test_bad_laws_are_refused(text: str) -> None:
    with pytest.raises(BadInput, match="availability"):
        parse_availability(text)


def test_more_clients_than_recorded_need_a_length(tmp_path: Path) -> None:
    path = tmp_path / "there.csv"
    path.write_text("client,second,available\n0,1,1\n0,3,0\n1,2,1\n")
    law = read_availability(path)
    presence = law.presence(0, np.arange(2), 9.0)
    assert presence.begin.tolist() == [1, 2]
    assert presence.end == pytest.approx([3, 9], rel=1e-5)
    with pytest.raises(BadInput, match="2 clients at most"):
        law.presence(0, np.arange(3), 9.0)
    more = parse_availability(f"trace:{path}:6")
    assert more is not None
    assert more.presence(0, np.arange(3), 12.0).clients == 3
