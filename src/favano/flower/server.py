"""The server of a federation: it calls clients, and makes updates of their updates.

The loop never waits for anybody: it looks what has come, does what the policy says, and
sleeps until something may happen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from functools import partial
from math import inf, isfinite, nan
from statistics import fmean
from typing import NamedTuple

import numpy as np
import torch
from flwr.app import Message
from flwr.serverapp import Grid

from favano.aggregation import Aggregator
from favano.aggregation.aggregator import Received, Update, seen_values
from favano.errors import Diverged
from favano.flower.board import Board
from favano.flower.checkpoint import CheckpointFolder, Models, SavedServer, ServerState
from favano.flower.checkpoint_queue import CheckpointQueue, Trouble
from favano.flower.clock import Clock
from favano.flower.evaluations import Evaluations
from favano.flower.gatekeeper import Gatekeeper
from favano.flower.influence import UNUSED, Influence
from favano.flower.ledger import (
    Clipped,
    Dropped,
    Event,
    Joined,
    Ledger,
    Left,
    Lost,
    Measured,
    RefusedUpdate,
    Turn,
    UsedUpdate,
    changes,
    overdue,
)
from favano.flower.mailbox import Delivery, Mailbox
from favano.flower.partitioning import DEAL
from favano.flower.payload import codec_text, pack
from favano.flower.rounds import Round, read_round
from favano.flower.safe_pull import run_number
from favano.flower.server_link import Handed, ServerLink
from favano.flower.wire import PARTITION, Call, Reply, Sign, call_message
from favano.methods import State
from favano.policies import ReceivedUpdate
from favano.screening import NormGate, Refusal, finite_rows
from favano.types import Floats, Vector

_PAUSE = 1.0  # seconds between two tries to write
_FIRST_WAIT, _LONGEST_WAIT = 5.0, 300.0  # seconds before a client is called that is refused again


@dataclass(frozen=True)
class ServerConfig:
    """What does not change in a federation, and what every call says."""

    run: str
    seed: int
    training: str  # JSON
    method: str  # by name
    identity: Mapping[str, str]
    patience: float = (
        3600.0  # seconds that a client update may be late before its client is given up
    )
    look_around: float = 5.0  # seconds between two looks at who is online
    sign: Sign | None = None  # calls, in the operator's name


class Services(NamedTuple):
    """What a server works with."""

    grid: Grid
    mailbox: Mailbox
    clock: Clock
    link: ServerLink
    gatekeeper: Gatekeeper
    norm: NormGate
    influence: Influence
    looking: Executor
    sending: Executor
    files: CheckpointFolder | None
    say: Callable[[str], None]
    evaluations: Evaluations
    board: Board | None


class Server:
    """One federation, from the server's side."""

    def __init__(
        self, terms: ServerConfig, aggregator: Aggregator[State], ledger: Ledger, tools: Services
    ) -> None:
        self._terms, self._tools = terms, tools
        self._aggregator, self.ledger = aggregator, ledger
        self.model = aggregator.initial
        self._own: dict[int, Vector] = {}  # models that clients go on from, if not the server's
        self._starts: dict[int, Vector] = {}  # of jobs that are not used yet
        self._ends: dict[int, bytes] = {}  # of client updates that are not used yet, as they came
        self._held: dict[int, Vector] = {}  # start model of each client's last job, with a codec
        self._reported: dict[int, Mapping[str, float]] = {}  # metrics of these client updates
        self._hung: set[int] = set()  # clients that do not answer
        self._waiting: set[int] = set()  # nodes without a place
        self._parts: dict[int, int] = {}  # of the data, as each client said last
        self.rounds: list[Round] = []
        self._new: list[Event] = []  # since the last checkpoint
        self._saves, self._trouble = CheckpointQueue(tools.sending), Trouble(tools.say)
        self._next_try = 0.0  # to write, if that was not possible
        self._online: Future[list[int]] | None = None
        self._next_look = 0.0
        self._old_jobs = 0  # handed out before the server was down, for nobody knows how long

    @property
    def version(self) -> int:
        """The newest version of the model."""
        return self._aggregator.version

    def run(self, rounds: int) -> None:
        """Work until there are so many updates, and their checkpoint is on disk."""
        try:
            self._work(rounds)
            while not self._settle(self._tools.clock.now()) or self._saves.waits:
                self._tools.clock.wait(self._tools.clock.now() + _PAUSE)
        except KeyboardInterrupt:  # the server is told to end
            self._saves.finish()
            if self._saves.error is not None:
                self._tools.say(f"{self._saves.error}; what came after it will be made again")
            raise

    def _work(self, rounds: int) -> None:
        clock = self._tools.clock
        while self.version + 1 < rounds:
            now = clock.now()
            self._look_around(now)
            if now >= self._next_try:
                for job, arrival in self._tools.mailbox.collect():
                    self._receive(job, arrival, clock.now())
            wakes = now + _PAUSE
            if self._settle(now):
                self._give_up_late(now)
                while self.version + 1 < rounds and (turn := self.ledger.turn_at(clock.now())):
                    self._new.append(turn[0])
                    self._act(turn[1], clock.now())
                wakes = self.ledger.wakes()
            if self._tools.board is not None:
                shares, waiting = self._tools.influence.shares, len(self._waiting)
                self._tools.board.show(self.ledger, self.rounds, shares, waiting, clock.now())
            clock.wait(min(wakes, self._next_look))

    def _settle(self, now: float) -> bool:
        """See what is on disk; False if something could not be written, and nothing is done now."""
        self._note_saved()
        mailbox = self._tools.mailbox
        error = self._saves.error or mailbox.write_error
        self._trouble.note(error or mailbox.link_error, now)
        if error is None:
            return True
        if now >= self._next_try:
            self._next_try = now + _PAUSE
            if self._saves.error is not None and not self._saves.waits:
                self._save(now)
        return False

    def _note_saved(self) -> None:
        self._saves.look()
        self._tools.evaluations.saved(self._saves.version + 1)

    def restore(self, saved: SavedServer) -> None:
        """Be where a checkpoint says."""
        for event in saved.events:
            self.ledger.apply(event)
        self._old_jobs = self.ledger.jobs
        self._aggregator.take_over(saved.memory, saved.standing.version, saved.models.server)
        self.model, self._own = saved.models.server, dict(saved.models.own)
        self._starts, self._held = dict(saved.models.starts), dict(saved.models.held)
        self._tools.norm.restore(saved.standing.norms)
        self._tools.influence.restore(saved.standing.influence)
        self.rounds = [read_round(document) for document in saved.standing.rounds]
        self._tools.evaluations.restore(saved.standing.evaluations, saved.models.unmeasured)
        mailbox = self._tools.mailbox
        mailbox.bytes_up, mailbox.bytes_down = saved.standing.traffic
        same_run = saved.standing.flower_run == run_number(self._tools.grid)
        mailbox.restore(saved.standing.calls, same_run=same_run)
        for job, arrival in mailbox.collect():
            self._receive(job, arrival, saved.standing.now)
        for client in (
            [] if same_run else sorted({opened.client for opened in self.ledger.open.values()})
        ):
            self._apply(Left(saved.standing.now, client))  # its call is lost
        self._forget_jobs()
        for job in [job for job in self._starts if self._is_known(job)]:
            client = int(self.ledger.timeline.known.client[job])
            self._tools.say(f"client {client}: its accepted client update to job {job} is lost")
            self._apply(Lost(saved.standing.now, job))
            self._drop(job)

    def _apply(self, event: Event) -> None:
        self._new.append(event)
        self.ledger.apply(event)

    def _look_around(self, now: float) -> None:
        """Who is online? Somebody else asks; what follows is done when it is known."""
        if self._online is None and now >= self._next_look:
            self._next_look = now + self._terms.look_around
            grid = self._tools.grid
            self._online = self._tools.looking.submit(lambda: list(grid.get_node_ids()))
        if self._online is not None and self._online.done():
            asked, self._online = self._online, None
            try:
                online = set(asked.result())
            except Exception as error:  # a SuperLink that is away for a while is asked again
                self._tools.say(f"nodes could not be asked for: {error}")
            else:
                nodes = {client: self.ledger.node_of[client] for client in self._hung}
                self._hung = {client for client, node in nodes.items() if node in online}
                for event in changes(self.ledger, online, self._hung, now):
                    self._note_change(event)
                self._note_waiting(online - self.ledger.client_of.keys())

    def _note_waiting(self, nodes: set[int]) -> None:
        """Say of which nodes nothing is asked."""
        for node in sorted(nodes - self._waiting):
            self._tools.say(f"node {node} waits: all {self.ledger.clients} places are taken")
        self._waiting = nodes

    def _note_change(self, event: Joined | Left) -> None:
        before, paused = self.ledger.node_of.get(event.client), event.client in self.ledger.paused
        self._apply(event)
        word = "is gone" if isinstance(event, Left) else "is called again" if paused else "joins"
        node = self.ledger.node_of[event.client]
        more = "" if before in (None, node) else f", in the place of node {before}"
        self._tools.say(f"client {event.client} {word} (node {node}){more}")
        if isinstance(event, Left):
            self._forget_jobs()

    def _receive(self, job: int, arrival: Delivery, now: float) -> None:
        """What has come for a job becomes a client update, or is refused, or its client is lost."""
        if self._is_known(job):  # a server that goes on reads it again
            self._keep_again(job, arrival)
            return
        client = int(self.ledger.timeline.known.client[job])
        self._hung.discard(client)
        start = self._starts.get(job)
        elapsed = inf if job < self._old_jobs else now - self.ledger.begin(job)
        verdict = self._tools.gatekeeper.judge(
            job, arrival, self.ledger, start, self.model, elapsed
        )
        if (reply := verdict.reply) is not None:
            if sees := tuple(self.ledger.policy.sees):
                assert start is not None
                values = self._seen(sees, reply, start)
                self._apply(Measured(now, job, tuple(zip(sees, values, strict=True))))
            self._apply(UsedUpdate(now, job, reply.steps, reply.seconds, reply.partition))
            self._note_part(client, reply.partition)
            self._keep(job, reply)
            if reply.left_out:
                self._refuse(job, client, Refusal.METRIC, ", ".join(reply.left_out), now)
            return
        if verdict.refusal is not None:
            self._refuse(job, client, verdict.refusal, verdict.detail, now)
        elif job in self.ledger.open and verdict.gone:
            self._note_change(Left(now, client))
        elif job in self.ledger.open:
            self._tools.say(f"client {client}: no client update to job {job}, {verdict.detail}")
            self._apply(Left(now, client, verdict.detail))
        self._forget_jobs()

    def _seen(self, names: Sequence[str], reply: Reply, start: Vector) -> list[float]:
        """What the policy sees of a client update."""
        end, size = self._tools.link.read(reply.model, start, self.model), self._aggregator.layout
        models = (model[: size.parameters] for model in (self.model, start, end))
        return seen_values(names, nan if reply.loss is None else reply.loss, *models)

    def _is_known(self, job: int) -> bool:
        """Whether an update was accepted before the server was killed, and is not used yet."""
        open_or_lost = job in self.ledger.open or job in self.ledger.given_up
        return job in self._starts and not open_or_lost and job not in self._ends

    def _keep(self, job: int, reply: Reply) -> None:
        self._ends[job], self._reported[job] = reply.model, reply.metrics

    def _keep_again(self, job: int, arrival: Delivery) -> None:
        judge, start = self._tools.gatekeeper.again, self._starts[job]
        reply, refusal, detail, _ = judge(job, arrival, self.ledger, start, self.model)
        if reply is not None:
            self._keep(job, reply)
            return
        why = ": ".join(word for word in (refusal, detail) if word)
        client = int(self.ledger.timeline.known.client[job])
        self._tools.say(
            f"client {client}: accepted client update to job {job} cannot be used, {why}"
        )

    def _note_part(self, client: int, part: int) -> None:
        """Say once if clients have the same part of the data."""
        before, self._parts[client] = self._parts.get(client), part
        if part < 0 or part == before:
            return
        others = [who for who in self.ledger.present - {client} if self._parts.get(who) == part]
        if others:
            names = ", ".join(str(who) for who in sorted(others))
            self._tools.say(
                f"client {client} says that it has part {part} of the data, as {names} did"
            )

    def _refuse(self, job: int, client: int, reason: Refusal, detail: str, now: float) -> None:
        more = f": {detail}" if detail else ""
        what = "part of the client update" if reason is Refusal.METRIC else "answer"
        pause = self._pause(client) if job in self.ledger.open else 0.0
        then = f"; it is called again in {pause:g} s" if pause else ""
        self._tools.say(f"client {client}: {what} to job {job} refused, {reason}{more}{then}")
        self._apply(RefusedUpdate(now, job, reason.value, pause))

    def _pause(self, client: int) -> float:
        """Seconds until a client is called whose update is refused: none at first, then more."""
        before = self.ledger.refused_in_a_row[client]
        doubled = min(before - 1, 10)  # more than enough for the longest wait
        return min(_FIRST_WAIT * 2.0**doubled, _LONGEST_WAIT) if before else 0.0

    def _give_up_late(self, now: float) -> None:
        """Clients that hang are not waited for any longer."""
        for client in overdue(self.ledger, now, self._terms.patience):
            self._tools.say(f"client {client} does not answer, and is given up for now")
            self._apply(Left(now, client, "it does not answer"))
            self._hung.add(client)
            self._forget_jobs()

    def _forget_jobs(self) -> None:
        """Forget the models of jobs that were given up."""
        for job in [job for job in self._starts if job in self.ledger.given_up]:
            self._starts.pop(job)

    def _act(self, turn: Turn, now: float) -> None:
        """Make an update, and call clients."""
        action, begun = turn
        for update in action.drop:
            self._drop(update.job)
        if action.cancel:
            self._forget_jobs()
        if action.use is not None:
            self._update(action.use, action.due, now)
        calls = [(job, self._message(job, self._hand_out(job), now)) for job in begun]
        if calls:
            self._tools.mailbox.send(calls)
        if self._tools.files is None:
            self._tools.sending.submit(self._tools.mailbox.keep, list(self._starts))
            self._tools.evaluations.saved(self.version + 1)
            self._new = []
        elif calls or action.use is not None:
            self._save(now)

    def _hand_out(self, job: int) -> Handed:
        """The model that a job begins from: its client's own one, or the newest version."""
        client, key = self.ledger.open[job].client, self.ledger.open[job].key
        link, base = self._tools.link, self.ledger.timeline.known.start_version
        model = self._own.get(client, self.model)
        if not self._aggregator.ahead:
            (model,) = self._aggregator.memory.with_own_buffers(np.array([client]), model[None])
        if key < 0:
            handed = link.whole(model)
        elif base[key] == base[job]:
            handed = link.again(self._held[client])
        else:
            handed = link.packed(self.version, model, self._held[client])
        self._starts[job] = handed.model
        if link.codec is not None:
            self._held[client] = handed.model
        return handed

    def _drop(self, job: int) -> None:
        self._starts.pop(job, None)
        self._ends.pop(job, None)
        self._reported.pop(job, None)

    def _update(self, use: Sequence[ReceivedUpdate], planned: float | None, now: float) -> None:
        """Make the next version of the model."""
        jobs = [update.job for update in use]
        received = self._received(jobs)
        if too_long := self._too_long(received):
            for job in too_long:
                client = int(self.ledger.timeline.known.client[job])
                self._refuse(job, client, Refusal.NORM, "", now)
                self._apply(Dropped(now, job))
            received = self._received([job for job in jobs if job not in too_long])
        update = self._updated(received, now)
        self.model = update.server
        if update.own is not None:
            self._own.update(zip(update.clients.tolist(), update.own.unbind(), strict=True))
        due = self.ledger.timeline.due
        self._record([update for update in use if isfinite(due[update.job])], planned, now)
        for job in jobs:
            self._drop(job)

    def _received(self, jobs: list[int]) -> Received:
        """The client updates to these jobs, which are those of the next update."""
        start = end = self.model.new_empty(0, len(self.model))
        if jobs:
            starts, read = [self._starts[job] for job in jobs], self._tools.link.read
            pairs = zip(jobs, starts, strict=True)
            ends = [read(self._ends[job], begun, self.model) for job, begun in pairs]
            start, end = torch.stack(starts), torch.stack(ends)
        return self._aggregator.received(self.model, start, end, np.ones(len(jobs), np.bool_))

    def _too_long(self, received: Received) -> list[int]:
        """Jobs whose contributions are refused by their norm."""
        gate, jobs = self._tools.norm, received.jobs.tolist()
        if gate.is_open or not jobs:
            return []
        norms = len(jobs) * self._aggregator.lengths(received).parameters
        return [job for job, norm in zip(jobs, norms.tolist(), strict=True) if gate.judge(norm)]

    def _updated(self, received: Received, now: float) -> Update:
        """The next version; client updates that would make it infinite are refused, all of them."""
        aggregator = self._aggregator
        if not len(received.jobs):
            return aggregator.apply(self.model, received)
        before, version = aggregator.remembered(), aggregator.version
        received = aggregator.transformed(received)
        lengths = self._shorten(received, now)
        update = aggregator.apply(self.model, received)
        if _is_finite(update):
            self._tools.influence.count(update.clients, lengths)
            return update
        aggregator.take_over(before, version, self.model)
        for job, client in zip(received.jobs.tolist(), received.clients.tolist(), strict=True):
            self._refuse(job, client, Refusal.INFINITE, "", now)
            self._apply(Clipped(now, job, 0.0, 0.0))
        update = aggregator.apply(self.model, received)
        if not _is_finite(update):
            raise Diverged(version + 2)
        return update

    def _shorten(self, received: Received, now: float) -> Floats:
        """Note what would move the model too far; returns how far each client update moves it."""
        timeline, lengths = self.ledger.timeline, self._aggregator.lengths(received)
        jobs = received.jobs.tolist()
        clients, rates = timeline.known.client[jobs], timeline.noted("rate")[jobs]
        influence = self._tools.influence
        before = influence.unused
        scales = influence.scales(self.version + 1, clients, lengths, rates, self.ledger.node_of)
        if before < UNUSED <= influence.unused:
            self._tools.say(
                f"nothing of the last {influence.unused} client updates was used, by --influence: "
                "while no other client makes steps, there is nobody to compare them with; leave it "
                "out if you trust the nodes"
            )
        pairs = zip(*(scale.tolist() for scale in scales), strict=True)
        for job, client, scale in zip(jobs, clients.tolist(), pairs, strict=True):
            if min(scale) < 1:
                self._apply(Clipped(now, job, *scale))
                count, part = self.ledger.clipped[client], f"{100 * min(scale):.2g} %"
                why = "moves the model too far" if min(scale) else "cannot be compared yet"
                if count & (count - 1) == 0:  # said at the first, second, fourth, ... time
                    self._tools.say(
                        f"client {client} {why}: {part} of its update to job {job} is used "
                        f"(shortened so far: {count})"
                    )
        moved: Floats = np.where(scales.parameters > 0, lengths.parameters, 0) * scales.parameters
        return moved

    def _record(self, updates: Sequence[ReceivedUpdate], due: float | None, now: float) -> None:
        known, mailbox = self.ledger.timeline.known, self._tools.mailbox
        told = [self._reported[answer.job] for answer in updates]
        names = dict.fromkeys(
            name for metrics in told for name in metrics if name not in (PARTITION, DEAL)
        )
        latest = Round(
            number=self.version + 1,
            seconds=now,
            wait=0.0 if due is None else max(0.0, now - due),
            clients=tuple(answer.client for answer in updates),
            steps=tuple(int(known.steps[answer.job]) for answer in updates),
            staleness=tuple(self.version - 1 - answer.start_version for answer in updates),
            bytes_up=mailbox.bytes_up,
            bytes_down=mailbox.bytes_down,
            metrics={
                name: fmean(metrics[name] for metrics in told if name in metrics) for name in names
            },
        )
        self.rounds.append(latest)
        self._tools.evaluations.after(latest, self.model)

    def _message(self, job: int, handed: Handed, now: float) -> Callable[[], Message]:
        """The call of a job, to be made by the thread that sends it."""
        ledger, known, terms = self.ledger, self.ledger.timeline.known, self._terms
        link, noted = self._tools.link, self.ledger.timeline.noted
        client, until = ledger.open[job].client, ledger.open[job].until
        correction = self._aggregator.gradient_correction(np.array([client]))
        seconds = until - now - ledger.lost_seconds(client) if isfinite(until) else inf
        call = Call(
            run=terms.run,
            client=client,
            job=job,
            version=int(known.start_version[job]),
            first_step=int(known.first_step[job]),
            steps=ledger.open[job].steps,
            rate=float(noted("rate")[job]),
            seed=terms.seed,
            training=terms.training,
            model=handed.data,
            dtype=str(link.shape.dtype).removeprefix("torch."),
            seconds=max(0.0, seconds) if isfinite(seconds) else None,
            codec=codec_text(link.codec),
            key=handed.key,
            message=int(noted("message")[job]),
            after=ledger.used_last(client),
            correction=None if correction is None else pack(correction[0], link.shape.trained),
            method=terms.method,
            loss=int("loss" in ledger.policy.sees),
        )
        ttl = (until - now if isfinite(until) else 0.0) + terms.patience
        return partial(call_message, call, ledger.node_of[client], ttl=ttl, sign=terms.sign)

    def _save(self, now: float) -> None:
        """Write a checkpoint once the calls before it have left."""
        new, self._new = self._new, []
        evaluations, unmeasured = self._tools.evaluations.so_far()
        kept = dict(self._own), dict(self._starts), dict(self._held)
        models = Models(self.model, *kept, unmeasured)
        memory, mailbox = self._aggregator.remembered(), self._tools.mailbox
        rounds = [past.document() for past in self.rounds]
        norms, version = list(self._tools.norm.seen), self.version
        influence = self._tools.influence.document()
        terms, files, flower = self._terms, self._tools.files, run_number(self._tools.grid)
        assert files is not None

        def write() -> None:
            calls = {job: mailbox.call_of[job] for job in models.starts if job in mailbox.call_of}
            traffic = mailbox.bytes_up, mailbox.bytes_down
            standing = ServerState(
                terms.identity, terms.run, flower, now, version, calls, norms, traffic, rounds,
                evaluations, influence,
            )  # fmt: skip
            files.save(standing, models, memory, new)
            mailbox.keep(models.starts)

        self._saves.add(version, write)
        self._note_saved()


def _is_finite(update: Update) -> bool:
    """Whether the new model is, and those that clients go on from."""
    models = (
        update.server[None] if update.own is None else torch.cat([update.server[None], update.own])
    )
    return all(finite_rows(models))
