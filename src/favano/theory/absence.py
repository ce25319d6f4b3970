"""The law of X = min(E, K) where clients come and go, given when they are there.

At tick t the server asks s of the N_t clients that are there, or all if there are fewer, so that a
client that is there is asked with chance p_t = min(1, s / N_t), independently over ticks. A contact
at tick b ends a job that began at tick a, the client's contact before, with probability

    p_a prod_{a < c < b} (1 - p_c)      (c: ticks in between at which it is there),

else when it first came; and if jobs are lost, when it came last. The window W_ab is the time since
then, or as much of it as the client was there if jobs are paused. Over all contacts up to the end,

    P(X >= j) = sum_b p_b sum_a P(job of b began at a) P(D_1 + ... + D_j <= W_ab) / sum_b p_b.

Differs from `steps`: a mean over the contacts of this run, not over those of the long run.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import inf
from typing import NamedTuple

import numpy as np
import scipy

from favano.errors import BadInput, require
from favano.policies import Policy, Polling, Rounds, Uniform
from favano.policies.policy import check_selected
from favano.schedule.draws import blocks, client_steps
from favano.schedule.polling import contact_times
from favano.theory.durations import JobLaw, check_law, finished, job_laws
from favano.theory.inclusion import selection_chances
from favano.timing import ClientSpeeds, Geometric, Presence, Trace, WhenAway
from favano.timing.ties import periods_until, whole_periods
from favano.types import Floats, Ints, Mask

_LEFT_OUT = 1e-14  # probability of the jobs that began before those that are summed over
_MOST = 100_000_000  # pairs of ticks: more takes minutes
_ROWS = 20_000  # visits at once, about
_DIGITS = 2.0**46  # windows that differ by less, as a share of all time, are one
_OTHERS = "use weights=empirical or given"


def expected_contacts(policy: Polling, fleet: ClientSpeeds, horizon: float) -> Floats:
    """How often each client is asked up to the horizon, in the mean, (n,).

    >>> from favano.timing import two_speeds
    >>> expected_contacts(Polling(selected=2), two_speeds(4), 70.0).tolist()
    [5.0, 5.0, 5.0, 5.0]
    """
    check_selected(policy.selected, fleet.clients)
    check_conditions(policy, fleet)
    ticks, presence = contact_times(policy, horizon), fleet.conditions.presence
    if presence is None:
        return selection_chances(policy, fleet.streams) * len(ticks)
    return _summed_over_ticks(presence, ticks, _chances(policy, presence, ticks))


def expected_shares(policy: Polling, fleet: ClientSpeeds, horizon: float) -> Floats:
    """Each client's share in what moves FAVANO's models up to the horizon, in the mean, (n,).

    The mean of the server's model and all start models moves by 1/(n + 1) of each message, so that
    clients count as often as they are asked. If jobs are lost, only the models of the N_t clients
    that are there are held, and each message counts 1/(N_t + 1): about, since models are given up.

    >>> from favano.timing import two_speeds
    >>> expected_shares(Polling(selected=2), two_speeds(4), 70.0).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    asked, conditions = expected_contacts(policy, fleet, horizon), fleet.conditions
    if conditions.presence is not None and conditions.when_away == "lost":
        ticks = contact_times(policy, horizon)
        held = _clients_there(conditions.presence, ticks) + 1
        chance = _chances(policy, conditions.presence, ticks)
        asked = _summed_over_ticks(conditions.presence, ticks, chance / held)
    require(bool(asked.any()), "horizon", horizon, "need a tick at which a client is there")
    return np.asarray(asked / asked.sum())


def ever_there(policy: Polling, presence: Presence) -> Mask:
    """Whether clients are there at a tick, (n,).

    >>> presence = Presence(np.array([0, 1, 2]), np.array([0.0, 8.0]), np.array([9.0, 13.0]))
    >>> ever_there(Polling(selected=1), presence).tolist()
    [True, False]
    """
    begin, stop = _ticks_there(presence, contact_times(policy, _end(presence)))
    count = np.append(0, np.cumsum(stop - begin))[presence.first]
    return np.asarray(np.diff(count) > 0)


def check_conditions(policy: Policy, fleet: ClientSpeeds) -> None:
    """Refuse what leaves the number of steps without an exact law."""
    conditions = fleet.conditions
    if conditions.always_there:
        return
    lawless = f"clients without an exact law of their steps; {_OTHERS}"
    rule = f"leaves {lawless}"
    if isinstance(policy, Rounds) and policy.deadline is not None:
        raise BadInput("deadline", policy.deadline, rule)
    if not isinstance(policy, Polling):  # a client answers with all its steps, or not at all
        return
    links = conditions.links
    require(links is None, "weights", "exact", f"messages that take time leave {lawless}")
    require(conditions.timeout == inf, "timeout", conditions.timeout, rule)
    for fault in conditions.faults:
        good = fault.what in ("duplicate", "poison")  # which change no step
        require(good, "faults", fault.what, rule)
    if conditions.presence is None or policy.step_count != "durations":
        return
    require(policy.selection == Uniform(), "selection", policy.selection.name, rule)
    require(policy.asked != "ahead", "asked", policy.asked, rule)
    require(policy.interruption == "redraw", "interruption", policy.interruption, rule)
    require(not policy.idle_in_interaction, "idle_in_interaction", True, rule)
    require(not isinstance(fleet.law, Trace), "step_law", "trace", rule)


def polled_tails(
    policy: Polling, fleet: ClientSpeeds, presence: Presence, resolution: int
) -> Iterator[tuple[Ints, Floats]]:
    """P(X >= j), j = 1..K, of clients that are alike; those that are never asked are left out."""
    check_selected(policy.selected, fleet.clients)
    check_conditions(policy, fleet)
    total = _end(presence)
    if total == 0:  # nobody is ever there
        return
    ticks = contact_times(policy, total)
    chance = _chances(policy, presence, ticks)
    visits = _Visits(presence, ticks, fleet.conditions.when_away)
    kinds, pairs = [], 0
    for job in job_laws(fleet, fleet.law, client_steps(policy, fleet)):
        check_law(job.law, job.mean)
        _, first, member = np.unique(
            presence.alike[job.members], return_index=True, return_inverse=True
        )
        windows = _Windows(job, total, strict=policy.strict_ties, cell=job.mean / resolution)
        kinds.append((job.members, job.members[first], member.ravel(), windows))
        pairs += visits.pairs(job.members[first], chance, windows.enough / policy.period)
    rule = f"about {pairs:,} pairs of contacts would take minutes; use empirical, monte-carlo"
    require(pairs <= _MOST, "weights", "exact", f"{rule} or given")
    for members, who, member, windows in kinds:
        tails, weight = visits.tails(who, chance, windows)
        order = np.argsort(member, kind="stable")
        groups = np.split(members[order], np.cumsum(np.bincount(member))[:-1])
        for group, tail, contacts in zip(groups, tails, weight.tolist(), strict=True):
            if contacts > 0:
                yield group, np.minimum(tail / contacts, 1.0)


def _end(presence: Presence) -> float:
    """When the last client leaves; nobody is asked from then on."""
    return float(presence.end.max(initial=0.0))


def _chances(policy: Polling, presence: Presence, ticks: Floats) -> Floats:
    """p_t at each tick."""
    there = _clients_there(presence, ticks)
    return np.asarray(np.minimum(1.0, policy.selected / np.maximum(there, 1)))


def _clients_there(presence: Presence, ticks: Floats) -> Ints:
    """N_t at each tick."""
    came = np.searchsorted(np.sort(presence.begin), ticks, side="right")
    left = np.searchsorted(np.sort(presence.end), ticks, side="right")
    return np.asarray(came - left)


def _summed_over_ticks(presence: Presence, ticks: Floats, value: Floats) -> Floats:
    """The sum of a value of each tick over the ticks at which each client is there, (n,)."""
    begin, stop = _ticks_there(presence, ticks)
    before = np.append(0.0, np.cumsum(value))
    total = np.append(0.0, np.cumsum(before[stop] - before[begin]))
    return np.asarray(np.diff(total[presence.first]))


def _ticks_there(presence: Presence, ticks: Floats) -> tuple[Ints, Ints]:
    """The first tick in each interval and the first one after it, (m,) each."""
    begin, stop = (np.searchsorted(ticks, each) for each in (presence.begin, presence.end))
    return begin, stop


class _Windows:
    """P(D_1 + ... + D_j <= W) of one kind of job, for many windows W."""

    def __init__(self, job: JobLaw, total: float, *, strict: bool, cell: float) -> None:
        self._job, self._strict, self._cell, self._total = job, strict, cell, total
        longer = 1.1 ** np.arange(np.ceil(np.log(max(total / job.mean, 1.0)) / np.log(1.1)) + 1)
        done = self.reached(job.mean * longer)[:, -1] >= 1 - _LEFT_OUT
        # From this window on all steps are made.
        self.enough = float(job.mean * longer[done.argmax()]) if done.any() else inf

    @property
    def steps(self) -> int:
        """K."""
        return self._job.steps

    def same(self, window: Floats) -> Floats:
        """The windows, with those that cannot be told apart made equal."""
        if isinstance(self._job.law, Geometric):  # steps end at whole units
            whole = periods_until(window, 1.0) - 1 if self._strict else whole_periods(window, 1.0)
            return np.maximum(whole, 0.0)
        unit = 2.0 ** np.ceil(np.log2(self._total)) / _DIGITS
        return np.asarray(np.rint(window / unit) * unit)

    def reached(self, window: Floats) -> Floats:
        """For windows in ascending order, (windows, K)."""
        strict = self._strict and not isinstance(self._job.law, Geometric)  # see `same`
        job = self._job
        return finished(job.law, job.mean, window, job.steps, strict=strict, cell=self._cell)


class _Rows(NamedTuple):
    """Visits: a client that is there at a tick, (r,) each, by client and in order."""

    client: Ints  # its place among those asked for
    tick: Ints
    clock: Floats  # by which its work is measured
    first: Ints  # its first visit whose job may still be under way
    start: Floats  # on its clock, when the first of these jobs began


class _Visits:
    """Who is there at which tick."""

    def __init__(self, presence: Presence, ticks: Floats, when_away: WhenAway) -> None:
        self._presence, self._ticks, self._when_away = presence, ticks, when_away
        self._begin, self._stop = _ticks_there(presence, ticks)
        self._before = np.append(0.0, np.cumsum(presence.end - presence.begin))
        self._count = np.append(0, np.cumsum(self._stop - self._begin))

    def pairs(self, who: Ints, chance: Floats, ticks: float) -> int:
        """About how many pairs of ticks are summed over; a job is done in so many ticks."""
        first = self._presence.first
        if self._when_away == "lost":
            stay = _ranges(first[who], first[who + 1])
            length = self._stop[stay] - self._begin[stay]
        else:
            length = self._count[first[who + 1]] - self._count[first[who]]
        least = min(chance.min(initial=1.0), 1 - _LEFT_OUT)
        most = int(min(ticks + 1, np.log(_LEFT_OUT) / np.log1p(-least) + 1))
        depth = np.minimum(length, most)
        return int((depth * length - depth * (depth - 1) // 2).sum())

    def tails(self, who: Ints, chance: Floats, windows: _Windows) -> tuple[Floats, Floats]:
        """Sums of P(X >= j) over expected contacts, (clients, K), and of these, (clients,)."""
        first = self._presence.first
        visits = np.cumsum(self._count[first[who + 1]] - self._count[first[who]])
        edges = np.unique(np.searchsorted(visits, np.arange(0, visits[-1] + _ROWS, _ROWS)))
        parts = [slice(*pair) for pair in pairwise([*edges.tolist(), len(who)])]
        sums = [self._summed(who[part], chance, windows) for part in parts]
        return np.concatenate([s for s, _ in sums]), np.concatenate([w for _, w in sums])

    def _summed(self, who: Ints, chance: Floats, windows: _Windows) -> tuple[Floats, Floats]:
        rows = self._rows(who)
        asked = chance[rows.tick]
        weight = np.asarray(np.bincount(rows.client, asked, len(who)), dtype=np.float64)
        total: Floats = np.zeros((len(who), windows.steps))
        client, window, mass = _jobs(rows, asked, windows.enough)
        if not len(client):
            return total, weight
        same = windows.same(window)
        length, place = np.unique(same, return_inverse=True)
        shape = (len(who), len(length))
        expected = scipy.sparse.csc_array((mass, (client, place)), shape=shape)
        for part in blocks(len(length), windows.steps):
            total += np.asarray(expected[:, part] @ windows.reached(length[part]))
        return total, weight

    def _rows(self, who: Ints) -> _Rows:
        presence, count = self._presence, self._count
        stay = _ranges(presence.first[who], presence.first[who + 1])  # intervals of these clients
        stays = presence.first[who + 1] - presence.first[who]
        owner = np.repeat(np.arange(len(who)), stays)
        visits = self._stop[stay] - self._begin[stay]
        tick = _ranges(self._begin[stay], self._stop[stay])
        place = np.repeat(np.arange(len(stay)), visits)  # of a visit's interval among these
        client, begun = owner[place], presence.begin[stay][place]
        time = self._ticks[tick]
        origin = presence.first[who]  # the clients' first intervals
        if self._when_away == "lost":
            return _Rows(client, tick, time, (np.cumsum(visits) - visits)[place], begun)
        each = count[presence.first[who + 1]] - count[origin]
        first = (np.cumsum(each) - each)[client]
        if self._when_away == "later":
            came = presence.begin[np.minimum(origin, len(presence.begin) - 1)]
            return _Rows(client, tick, time, first, came[client])
        earlier = self._before[stay][place] - self._before[origin][client]
        return _Rows(client, tick, earlier + (time - begun), first, np.zeros(len(tick)))


def _jobs(rows: _Rows, asked: Floats, enough: float) -> tuple[Ints, Floats, Floats]:
    """All pairs of a contact and a beginning of its job: client, window, expected number."""
    pairs: list[tuple[Ints, Floats, Floats]] = [(rows.client[:0], asked[:0], asked[:0])]
    visit, left, back = np.arange(len(asked)), asked.copy(), 0
    while len(visit):
        back += 1
        earlier = visit - back
        none = earlier < rows.first[visit]
        began = np.where(none, rows.start[visit], rows.clock[earlier])
        window = np.maximum(rows.clock[visit] - began, 0.0)
        last = none | (window >= enough)  # all that began before have made all their steps, too
        here = np.where(last, 1.0, asked[earlier])
        pairs.append((rows.client[visit], window, left * here))
        left *= 1.0 - here
        on = left > _LEFT_OUT * asked[visit]
        visit, left = visit[on], left[on]
    client, window, mass = (np.concatenate(parts) for parts in zip(*pairs, strict=True))
    return client, window, mass


def _ranges(begin: Ints, stop: Ints) -> Ints:
    """begin..stop-1 for each pair, one after the other."""
    length = stop - begin
    skipped = np.repeat(begin - (np.cumsum(length) - length), length)
    return np.asarray(skipped + np.arange(len(skipped)))
