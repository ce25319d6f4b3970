"""The virtual clock: drives any policy over a fleet up to the horizon.

Clients are known to policies by the numbers of their streams, so that renumbering the clients
together with their streams only renumbers the schedule. Events are in the order of time; of client
updates that arrive at the same time a random key says which is first, not the client's number, and
what arrives when the policy wakes is there before it acts. What else happens to clients
(`encounters.py`) comes after the updates that arrive at that time, and before the policy acts.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf, nan

import numpy as np

from favano.policies import Action, Dispatch, Policy, ReceivedUpdate, Referee, policy_errors
from favano.schedule.draws import client_steps, draws_used, job_steps, step_ends
from favano.schedule.encounters import Encounters, encounters_of
from favano.schedule.job_times import JobTimes
from favano.schedule.schedule import Schedule
from favano.schedule.timeline import ENCOUNTERED, Timeline
from favano.timing import ClientSpeeds, Trace
from favano.timing.ties import at_or_before, in_order, latest, not_after
from favano.types import Floats


def drive(
    policy: Policy, fleet: ClientSpeeds, horizon: float, seed: int, *, jobs: float = 0.0
) -> Schedule:
    """What the policy does with this fleet, up to the horizon, if all values it sees are NaN.

    `jobs` is about how many there will be, if that is known: it saves time.
    """
    clock, unknown = VirtualClock(policy, fleet, horizon, seed, jobs=jobs), [nan] * len(policy.sees)
    while clock.awaited is not None:
        clock.learn(unknown)
    return clock.timeline.schedule


@dataclass(slots=True)
class _Job:
    stream: int  # of its client, whom policies know by it
    client: int
    number: int
    steps: int  # that it will make
    until: float
    start_version: int
    dispatched: float
    waits: bool = False  # for being asked
    place: int = 0  # its first draw of a step time
    tie: int = 0
    begin: float = inf
    finish: float = inf
    arrival: float = inf  # when its update arrives, as far as is known
    # Where clients meet more than their speed; else not set:
    ready: float = field(init=False)  # when its first step begins
    pace: float = field(init=False)  # its steps take so many times as long
    sent_at: float = field(init=False)  # when its update leaves the client
    copies: int = field(init=False)  # of its update
    is_lost: bool = field(init=False)  # whether its update never arrives
    held: float = field(init=False)  # time in which it has hung
    hung: tuple[float, float] | None = field(init=False)  # since when it hangs, and its arrival

    def set_out(self) -> None:
        """Nothing has happened to it yet."""
        self.ready = self.sent_at = inf
        self.copies, self.is_lost, self.held, self.hung = 1, False, 0.0, None


class VirtualClock:
    """A policy at work with a fleet: its timeline up to the horizon, or as far as values are known.

    For a policy that sees values of client updates, the clock stands still when one arrives, until
    it has learnt them.

    Args:
        policy: what the server does.
        fleet: the clients and their speeds.
        horizon: the end.
        seed: of all draws.
        jobs: about how many there will be, if that is known.
    """

    def __init__(
        self, policy: Policy, fleet: ClientSpeeds, horizon: float, seed: int, *, jobs: float = 0.0
    ) -> None:
        self._given = policy, fleet, horizon, seed
        with policy_errors(policy):
            self._policy = policy.started(seed)
        self._fleet, self._seed = fleet, seed
        self._horizon, self._last = horizon, float(latest(horizon))
        self._referee, self.sees = Referee(policy, asking=True), tuple(policy.sees)
        self._encounters = encounters_of(fleet)
        self._most = job_steps(policy.most_steps, fleet)
        self._recorded = isinstance(fleet.law, Trace)
        self._server_pause, self._client_pause = policy.server_pause, policy.client_pause
        each = jobs / fleet.mean / float((1 / fleet.mean).sum())
        self._times = JobTimes(fleet, client_steps(policy, fleet), each, seed)
        streams = enumerate(fleet.streams.tolist())
        self._client_of: dict[int, int] = {stream: client for client, stream in streams}
        self._now = 0.0
        self._alarm: float | None = None  # the policy wakes, and gets what arrives just then
        notes = () if self._encounters is None else ENCOUNTERED
        self.timeline = Timeline(fleet.clients, self._most, notes)
        # Of the jobs that each client has begun: their draws, their steps, and how many there are.
        self._draws, self._made, self._count = ([0] * fleet.clients for _ in range(3))
        self._at_work: dict[int, _Job] = {}  # by stream
        self._queues: dict[int, deque[_Job]] = {}
        # time in order, that of all steps in order, tie, number, job, time
        self._arrivals: list[tuple[float, float, int, int, _Job, float]] = []
        self._here: dict[int, _Job] = {}  # whose updates are here
        self._unused: list[_Job] = []
        self._learnt: list[tuple[float, ...]] = []
        self.awaited: int | None = None  # the job whose values come next; None: there are none
        self._streams: list[int] = fleet.streams.tolist()
        everyone = range(fleet.clients)
        at_first = everyone if self._encounters is None else self._encounters.at_first
        self._left = set[int]()  # clients that the policy was told have left
        self._present = {self._streams[client] for client in at_first}
        with policy_errors(self._policy):
            for stream in sorted(self._present):
                self._policy.join(stream, 0.0)
            self._go_on()

    @property
    def learnt(self) -> Floats:
        """(m, v) all values so far, in the order in which client updates arrived."""
        return np.array(self._learnt, dtype=np.float64).reshape(-1, len(self.sees))

    def again(self, values: Floats) -> VirtualClock:
        """A clock that has learnt these values from the beginning."""
        clock = VirtualClock(*self._given)
        for row in values.tolist():
            if clock.awaited is None:
                break
            clock.learn(row)
        return clock

    def learn(self, values: Sequence[float]) -> None:
        """Go on with the values of the awaited update, in the order of `sees`."""
        self._learnt.append(tuple(values))
        self.awaited = None
        with policy_errors(self._policy):
            self._receive(tuple(zip(self.sees, values, strict=True)))
            self._go_on()

    def _go_on(self) -> None:
        """Until values are needed, or the horizon is reached."""
        policy, referee, arrivals, at_work = (
            self._policy,
            self._referee,
            self._arrivals,
            self._at_work,
        )
        encounters, present, happening = self._encounters, self._present, inf
        while True:
            if self._alarm is None:
                while (action := policy.act(self._now)) is not None:
                    referee.check(action, self._now, present=present, busy=at_work, here=self._here)
                    self._do(action)
                waits = bool(at_work) or encounters is not None
                wakes = referee.waits(policy.wakes(), self._now, for_clients=waits)
                alarm = in_order(wakes) if wakes < inf else inf
                if encounters is not None:
                    happening = encounters.next_time(self.timeline.updates)
                if arrivals and arrivals[0][0] < alarm and arrivals[0][0] <= happening:
                    now = max(self._now, arrivals[0][5])
                elif happening < alarm:
                    now = max(self._now, happening)
                else:
                    now, self._alarm = max(self._now, wakes), alarm
                if now > self._last:
                    break
                self._now = now
            arrival = arrivals[0][0] if arrivals else inf
            if self._alarm is not None and arrival > self._alarm:
                if encounters is None or not self._happen(encounters):
                    self._alarm = None
            elif happening < arrival:
                assert encounters is not None
                self._happen(encounters)
            elif encounters is not None and not self._gets_through(arrivals[0][4], encounters):
                continue
            elif self.sees:
                self.awaited = arrivals[0][3]
                return
            else:
                self._receive(())
        self._end_of_run()

    def _end_of_run(self) -> None:
        timeline, at_work, arrivals = self.timeline, self._at_work, self._arrivals
        if left := self._policy.end():
            last = timeline.time(timeline.updates - 1) if timeline.updates else 0.0
            self._use(left, max(self._horizon, last))
        self._unused += self._here.values()
        while arrivals and arrivals[0][5] <= self._last:  # the server is busy past the horizon
            self._unused.append(self._end())
        if encounters := self._encounters:
            timeline.faults = encounters.end()
            waiting = [job for job in at_work.values() if job.waits]
            self._stop(waiting, np.full(len(waiting), self._horizon))
        under_way = sorted(at_work.values(), key=lambda job: (job.tie, job.client))
        queued = [job for stream in sorted(self._queues) for job in self._queues[stream]]
        for job in queued:
            timeline.set("first_step", [job.number], self._made[job.client])
            self._made[job.client] += job.steps
        timeline.end([job.number for job in (*self._unused, *under_way, *queued)])

    def _receive(self, values: tuple[tuple[str, float], ...]) -> None:
        """The next client update arrives."""
        job = self._end()
        self._here[job.number] = job
        duration = job.finish - job.begin - self._client_pause
        seen = job.stream, job.number, job.start_version, job.steps, duration, values
        self._policy.receive(ReceivedUpdate(*seen), self._now)

    def _end(self) -> _Job:
        """The next job ends, and its client goes on with one that waits."""
        entry = heapq.heappop(self._arrivals)
        job, time, now = entry[4], entry[5], self._now
        job.finish = time if time < now else now  # what arrives as the policy wakes is not later
        self.timeline.set("finish", [job.number], job.finish)
        if self._encounters is not None:
            self.timeline.set("uploads", [job.number], job.copies)
            self.timeline.set("scale", [job.number], self._encounters.scale(job, job.finish))
        del self._at_work[job.stream]
        if queue := self._queues.get(job.stream):
            begin = max(job.finish, queue[0].dispatched)
            if self._encounters is not None:
                begin = self._encounters.reachable(job.client, begin)
            if not_after(begin, self._now):
                self._go_on_with(queue, begin)  # else once its client is back
        self._forget_cancelled()
        return job

    def _go_on_with(self, queue: deque[_Job], begin: float) -> None:
        """A client begins the first of its jobs that wait."""
        job = queue.popleft()
        self.timeline.set("begin", [job.number], begin)
        self.timeline.set("first_step", [job.number], self._made[job.client])
        self._start([job], begin)

    def _forget_cancelled(self) -> None:
        """Let the next arrival be that of a job under way, when it is expected."""
        arrivals, at_work = self._arrivals, self._at_work
        while arrivals:
            entry = arrivals[0]
            job = entry[4]
            if at_work.get(job.stream) is job and job.arrival == entry[5]:
                break
            heapq.heappop(arrivals)

    def _do(self, action: Action) -> None:
        for update in action.drop:
            self._unused.append(self._here.pop(update.job))
            self.timeline.drop(update.job)
        if action.cancel:
            self._cancel([self._at_work.pop(stream) for stream in action.cancel])
        if action.ask:
            self._ask([self._at_work[stream] for stream in action.ask])
        dispatch = action.dispatch
        if action.use is not None:
            self._now += self._server_pause
            self._use(action.use, self._now)
            if self._server_pause and (encounters := self._encounters):  # who leaves meanwhile?
                self._left.clear()
                self._happen(encounters)
                dispatch = [job for job in dispatch if job.client not in self._left]
        if dispatch:
            self._dispatch(dispatch)

    def _use(self, updates: Sequence[ReceivedUpdate], time: float) -> None:
        for update in updates:
            del self._here[update.job]
        self.timeline.use([update.job for update in updates], time)

    def _dispatch(self, dispatches: Sequence[Dispatch]) -> None:
        timeline, begin, version = self.timeline, list[_Job](), self.timeline.updates - 1
        for stream, until, steps, waits in dispatches:
            client = self._client_of[stream]
            wanted = self._policy.steps_of(stream) if steps is None else steps
            queued = stream in self._at_work
            number = timeline.add(client, wanted, self._made[client], inf if queued else self._now)
            job = _Job(stream, client, number, wanted, until, version, self._now, waits)
            if queued:
                self._queues.setdefault(stream, deque()).append(job)
            else:
                begin.append(job)
                self._at_work[stream] = job
        self._start(begin, self._now)

    def _start(self, jobs: list[_Job], now: float) -> None:
        """Clients begin jobs."""
        begin, short, encounters = now + self._client_pause, list[_Job](), self._encounters
        if len(jobs) > 1:
            clients = [job.client for job in jobs]
            self._times.prepare(clients, [self._count[client] for client in clients])
        for job in jobs:
            client, steps, number = job.client, job.steps, job.number
            job.begin, job.place = now, self._draws[client]
            length, job.tie = self._times.of(client, self._count[client], job.place, steps)
            self._at_work[job.stream] = job
            self._count[client] += 1
            self._draws[client] += steps
            self._made[client] += steps
            if encounters is not None:
                job.set_out()
                job.pace = encounters.pace(job, now)
                begin = job.ready = encounters.received(client, now) + self._client_pause
                finish = time = encounters.done(client, begin, length * job.pace)
            else:
                finish = time = begin + length
            key = late = in_order(finish)
            if job.waits:
                continue
            if finish > job.until:
                time = job.until
                key = in_order(time)
                if encounters is not None or not not_after(length, time - begin):
                    short.append(job)
            if encounters is not None:
                job.sent_at, time = time, encounters.sent(client, time)
                key, late = in_order(time), in_order(time)
                encounters.wait_for(job, now)
            if self.sees and time <= self._last:
                self.timeline.set("due", [number], time)
            job.arrival = time
            heapq.heappush(self._arrivals, (key, late, job.tie, number, job, time))
        if short:
            self._stop(short, np.array([job.until for job in short]))

    def _cancel(self, jobs: list[_Job]) -> None:
        """Jobs are stopped now, and what was made of them is wasted."""
        self._stop(jobs, np.full(len(jobs), self._now))
        for job in jobs:
            met = self._encounters is not None
            if not (met and job.is_lost):
                self.timeline.set("finish", [job.number], self._now)
            if met and job.sent_at <= self._now:
                self.timeline.set("uploads", [job.number], job.copies)
            self.timeline.drop(job.number)
            self._unused += [job, *self._queues.pop(job.stream, ())]
        self._forget_cancelled()

    def _ask(self, jobs: list[_Job]) -> None:
        """Clients stop, and send what they have."""
        self._stop(jobs, np.full(len(jobs), self._now))
        for job in jobs:
            job.waits, job.sent_at, time = False, self._now, self._now
            if self._encounters is not None:
                time = self._encounters.sent(job.client, time)
                self._encounters.wait_for(job, self._now)
            self._expect(job, time)

    def _expect(self, job: _Job, time: float) -> None:
        """The update of a job arrives then."""
        job.arrival, key = time, in_order(time) if time < inf else inf
        heapq.heappush(self._arrivals, (key, key, job.tie, job.number, job, time))
        self._forget_cancelled()

    def _gets_through(self, job: _Job, encounters: Encounters) -> bool:
        """Whether an update is received as it comes; else it is lost, late, or not through yet."""
        now = self._now
        faults = encounters.message(job, now)
        if "duplicate" in faults:
            job.copies = 2
        if "lose" in faults:
            self.timeline.set("finish", [job.number], now)
            job.is_lost = True
            self._expect(job, inf)
            return False
        time = encounters.passed(job, now + faults.get("late", 0.0))
        if time > now:
            self._expect(job, time)
        return time <= now

    def _happen(self, encounters: Encounters) -> bool:
        """What happens to clients now; whether anything did."""
        happened = False
        for event in encounters.take(self._now, self.timeline.updates):
            happened = True
            stream = self._streams[event.client]
            job = self._at_work.get(stream)
            if event.fault:
                number = -1 if job is None else job.number
                encounters.note(self._now, event.client, event.what, number)
            match event.what:
                case "timeout" | "crash" if job is not None and job.arrival > event.time:
                    if event.job in (None, job):  # else it has ended long ago
                        self._give_up(stream)
                case "leave":
                    lost = event.fault or encounters.mode == "lost"
                    self._goes(encounters, stream, event.time, lost=lost)
                case "hang":
                    self._goes(encounters, stream, event.time, lost=False)
                    if job is not None and job.hung is None:
                        job.hung = self._now, job.arrival
                        self._expect(job, inf)
                case "start" | "continue" if encounters.is_there(event.client):
                    self._comes(stream, event.time)
                    if job is not None and job.hung is not None:
                        since, arrival = job.hung
                        job.held, job.hung = job.held + self._now - since, None
                        job.sent_at += self._now - since
                        moved = arrival + self._now - since
                        self._expect(job, encounters.reachable(event.client, moved))
        return happened

    def _goes(self, encounters: Encounters, stream: int, time: float, *, lost: bool) -> None:
        """A client goes away; its jobs are lost, or go on."""
        here, job = stream in self._present, self._at_work.get(stream)
        queue = self._queues.get(stream)
        self._present.discard(stream)
        if not lost and (job is not None or queue):
            if here:
                self._policy.away(stream, self._now)
            return
        # Its update may have come while the server was busy.
        if job is not None and not (job.arrival <= time and self._gets_through(job, encounters)):
            self._cancel([self._at_work.pop(stream)])
        self._unused += self._queues.pop(stream, ())
        if here or job is not None or queue:
            self._left.add(stream)
            self._policy.leave(stream, self._now)

    def _comes(self, stream: int, time: float) -> None:
        """A client is there again, or for the first time."""
        if stream in self._present:
            return
        self._present.add(stream)
        if (queue := self._queues.get(stream)) and stream not in self._at_work:
            self._go_on_with(queue, time)
        if stream in self._at_work:
            self._policy.back(stream, self._now)
        else:
            self._policy.join(stream, self._now)

    def _give_up(self, stream: int) -> None:
        """The update of a client is no longer waited for; it may be asked anew."""
        self._cancel([self._at_work.pop(stream)])
        self._left.add(stream)
        self._policy.leave(stream, self._now)
        if stream in self._present:
            self._policy.join(stream, self._now)

    def _stop(self, jobs: list[_Job], time: Floats) -> None:
        """Count the steps that these jobs have made at these times, (m,)."""
        if not jobs:
            return
        client, place = np.array([(job.client, job.place) for job in jobs]).T
        if self._encounters is None:
            worked = time - np.array([job.begin for job in jobs]) - self._client_pause
        else:
            worked = self._encounters.worked(jobs, time)
        ends = step_ends(self._fleet, client, place, self._most[client], self._seed)
        done = at_or_before(ends, worked[:, None]).sum(axis=1).tolist()
        used = draws_used(self._fleet, ends, self._most[client], worked).tolist()
        for job, steps, draws in zip(jobs, done, used, strict=True):
            fewer = max(job.steps - steps, 0)
            job.steps -= fewer
            self.timeline.set("steps", [job.number], job.steps)
            self._made[job.client] -= fewer
            if self._recorded:  # lines of a recording are played in order
                self._draws[job.client] = job.place + draws
