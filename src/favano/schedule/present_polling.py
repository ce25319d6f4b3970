"""Plans `Polling` where clients come and go: every period it asks some of those that are there.

The same as the virtual clock makes of the policy, tick by tick for all clients at once, where
messages take no time and nothing goes wrong.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from favano.errors import require
from favano.policies import Polling, Selector, Uniform
from favano.policies.selection import smallest
from favano.rng import Stream, bits_of, origin
from favano.schedule.draws import client_steps, total_before
from favano.schedule.polling import contact_times, count_steps
from favano.schedule.schedule import Schedule
from favano.timing import ClientSpeeds, Presence, WhenAway
from favano.types import Floats, Ints, Mask

_EQUAL = 1 + 5e-12  # times that differ by less are one, as the virtual clock puts them in order


def plan_present_polling(
    policy: Polling, fleet: ClientSpeeds, horizon: float, seed: int
) -> Schedule:
    """All contacts up to the horizon, with the steps that each client has made by then."""
    presence, most = fleet.conditions.presence, client_steps(policy, fleet)
    assert presence is not None
    time = contact_times(policy, horizon)
    rule = "need a later horizon, or no client is ever asked"
    require(len(time) > 0, "horizon", horizon, rule)
    clients = _Clients(presence, fleet.conditions.when_away)
    asked = _Asked(policy, fleet, seed)
    for tick, now in enumerate(time.tolist()):
        clients.go_on(now, tick)
        if len(who := asked.at(tick, clients.there)):
            clients.contact(who, now, tick)
    clients.go_on(horizon, len(time))
    clients.end(horizon, len(time))
    who, begin, finish, start_version, used_by, window, tick_of = clients.jobs()
    used, made = used_by < len(time), np.unique(used_by[used_by < len(time)])
    number = total_before(who, np.ones_like(who))
    steps = count_steps(policy, fleet, who, number, window, most, seed)
    first_step = total_before(who, steps)
    # Server steps are the ticks at which somebody was there.
    version = np.searchsorted(made, np.arange(len(time) + 1))  # of the next server step
    lost = ~used & (finish < np.inf)
    wasted = np.bincount(version[tick_of[lost]], steps[lost], len(made) + 1)[: len(made)]
    order = np.argsort(used_by, kind="stable")
    return Schedule(
        clients=fleet.clients,
        local_steps=most,
        time=time[made],
        wasted_steps=wasted.astype(np.int64),
        client=who[order],
        steps=steps[order],
        start_version=version[start_version[order] + 1] - 1,
        used_by=np.where(used, version[used_by], len(made))[order],
        first_step=first_step[order],
        begin=begin[order],
        finish=finish[order],
        uploads=used[order].astype(np.int64),
    )


class _Asked:
    """Whom each tick asks, by the rule of the policy, as it draws them itself."""

    def __init__(self, policy: Polling, fleet: ClientSpeeds, seed: int) -> None:
        self._size, self._selector = policy.selected, Selector(policy.selection, seed)
        self._by_stream = np.argsort(fleet.streams)
        self._streams = fleet.streams[self._by_stream]
        self._uniform = policy.selection == Uniform()
        self._origins = origin(seed, Stream.SELECTION, self._streams)

    def at(self, tick: int, there: Mask) -> Ints:
        """The clients that are asked at a tick, of those that are there, in order of stream."""
        candidates = np.flatnonzero(there[self._by_stream])
        if self._uniform and self._size < len(candidates):
            keys = bits_of(self._origins[candidates], tick)
            return self._by_stream[candidates[smallest(keys, self._size)]]
        self._selector.round = tick
        streams = self._streams[candidates]
        chosen = self._selector.select(streams, min(self._size, len(streams)))
        return self._by_stream[np.searchsorted(self._streams, chosen)]


@dataclass
class _Rows:
    """Some jobs that end at one tick, or before it: one array per column."""

    client: Ints
    begin: Floats
    finish: Floats | float
    start_version: Ints  # as ticks
    used_by: int
    window: Floats  # the time that clients could work
    tick: int  # the next one


class _Clients:
    """Who is there, since when, and which job each client has: (n,) arrays."""

    def __init__(self, presence: Presence, mode: WhenAway) -> None:
        self._mode, count = mode, presence.clients
        self._time, self._client, self._comes = presence.changes()
        self._place = 0  # in the changes
        self.there = np.zeros(count, dtype=bool)
        self._has_job: Mask = np.zeros(count, dtype=bool)
        self._came, self._begin = np.zeros(count), np.zeros(count)
        self._before = np.zeros(count)  # time there before it came
        self._worked = np.zeros(count)  # time there when its job began
        self._start = np.full(count, -1)  # tick before its job
        self._rows: list[_Rows] = []

    def go_on(self, now: float, tick: int) -> None:
        """What happens up to this time, before the tick of this number."""
        last = int(np.searchsorted(self._time, now * _EQUAL, side="right"))
        first, self._place = self._place, last
        client = self._client[first:last]
        if len(np.unique(client)) == len(client):
            parts = [slice(first, last)]
        else:  # somebody comes and goes: one after the other
            parts = [slice(place, place + 1) for place in range(first, last)]
        for part in parts:
            who, time, comes = self._client[part], self._time[part], self._comes[part]
            self._leave(who[~comes], time[~comes], tick)
            self._come(who[comes], time[comes], tick)

    def _leave(self, who: Ints, time: Floats, tick: int) -> None:
        self.there[who] = False
        self._before[who] += time - self._came[who]
        if self._mode == "lost" and len(who):
            self._rows.append(self._jobs_of(who, time, -1, tick))
            self._has_job[who] = False

    def _come(self, who: Ints, time: Floats, tick: int) -> None:
        self.there[who], self._came[who] = True, time
        new = ~self._has_job[who]
        self._dispatch(who[new], time[new], tick - 1)

    def _dispatch(self, who: Ints, time: Floats | float, start: int) -> None:
        self._has_job[who], self._begin[who], self._start[who] = True, time, start
        self._worked[who] = self._before[who] + (time - self._came[who])

    def contact(self, who: Ints, now: float, tick: int) -> None:
        """These clients send what they have, and begin again."""
        self._rows.append(self._jobs_of(who, now, tick, tick))
        self._dispatch(who, now, tick)

    def end(self, horizon: float, ticks: int) -> None:
        """Jobs under way at the end."""
        who = np.flatnonzero(self._has_job)
        rows = self._jobs_of(who, horizon, ticks, ticks)
        rows.finish = np.inf
        self._rows.append(rows)

    def _jobs_of(self, who: Ints, now: Floats | float, used_by: int, tick: int) -> _Rows:
        begin = self._begin[who]
        window = now - begin
        if self._mode == "paused":
            there = np.where(self.there[who], now - self._came[who], 0.0) + self._before[who]
            window = there - self._worked[who]
        return _Rows(who, begin, now, self._start[who], used_by, window, tick)

    def jobs(self) -> tuple[Ints, Floats, Floats, Ints, Ints, Floats, Ints]:
        """The columns of all jobs, each client's in order; unused ones have the last tick's."""
        rows, sizes = self._rows, [len(rows.client) for rows in self._rows]
        last = rows[-1].used_by
        used_by = [last if some.used_by < 0 else some.used_by for some in rows]
        return (
            np.concatenate([some.client for some in rows]),
            np.concatenate([some.begin for some in rows]),
            np.concatenate([np.broadcast_to(some.finish, some.client.shape) for some in rows]),
            np.concatenate([some.start_version for some in rows]),
            np.repeat(np.array(used_by, dtype=np.int64), sizes),
            np.concatenate([some.window for some in rows]),
            np.repeat(np.array([some.tick for some in rows], dtype=np.int64), sizes),
        )
