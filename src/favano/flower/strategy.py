"""`AsyncStrategy`: a method of this package as a strategy of Flower."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import get_args

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord
from flwr.serverapp import Grid

from favano.aggregation import Aggregator, ClientMemory, ServerChain
from favano.errors import WriteFailed, one_line, require
from favano.flower.board import Board
from favano.flower.checkpoint import CheckpointFolder, SavedServer
from favano.flower.clock import Clock, WallClock
from favano.flower.evaluations import Evaluate, Evaluations
from favano.flower.flat_arrays import FlatArrays, flat_arrays
from favano.flower.gatekeeper import Gatekeeper
from favano.flower.influence import Influence
from favano.flower.journal import Journal
from favano.flower.ledger import Ledger, estimates_for
from favano.flower.local_training import LocalTraining, check_training, to_json
from favano.flower.mailbox import Executors, Mailbox
from favano.flower.method_check import check_method
from favano.flower.partitioning import Partitioning
from favano.flower.payload import read_codec
from favano.flower.rounds import AsyncResult, node_records
from favano.flower.server import Server, ServerConfig, Services
from favano.flower.server_link import ServerLink
from favano.flower.signed_calls import signer_of
from favano.methods import AnyMethod, State
from favano.methods.context import federation
from favano.methods.weights import measured
from favano.planning.planned import policy_keys
from favano.policies import Polling, Uniform
from favano.policies.policy import check_selected
from favano.policies.registry import APolicy, as_policy
from favano.policies.selection_names import ASelection, as_selection
from favano.records.federation import INITIAL, TRACE
from favano.records.folder import MODEL, write_together
from favano.run.folder_lock import folder_lock
from favano.schedule import Schedule
from favano.screening import NormGate
from favano.specification.presets import filled
from favano.transforms import ATransform, as_transform
from favano.types import Buffers, Floats, Vector
from favano.user_classes import is_ours, source_digest

CHECKPOINT, JOURNAL = "checkpoint", "journal"

_OVERHEAD = 1 << 20  # bytes of a reply beside its model, at most
_LINE = 400  # characters of what is said, at most
_log = logging.getLogger("favano.flower")


@dataclass(frozen=True)
class Threads:
    """Who does the work beside the server's loop; tests give their own."""

    sending: Executor
    finding: Executor
    fetching: Executor
    evaluating: Executor


@contextmanager
def threads() -> Iterator[Threads]:
    """Real threads."""
    names = {"sending": 1, "finding": 1, "fetching": 8, "evaluating": 1}
    pools = {name: ThreadPoolExecutor(count, name) for name, count in names.items()}
    try:
        yield Threads(**pools)
    finally:
        for pool in pools.values():
            pool.shutdown(cancel_futures=True)


@dataclass(kw_only=True)
class AsyncStrategy:
    """A method of this package over Flower.

        strategy = AsyncStrategy(favano.Favano(), clients=10, selected=2, tick=30, local_steps=20,
                                 learning_rate=0.1, local=LocalTraining(batch_size=32))
        result = strategy.start(grid, ArrayRecord(model.state_dict()), num_rounds=100)

    Any method; nodes may come and go.

    Args:
        method: the simulator's own object; FAVANO measures its weights here.
        policy: whom the server asks and when, if not as the method says.
        clients: places n; a node keeps its place.
        local_steps: most steps of a job, K, of all clients or a list with that of each; with
            `local_epochs` in `local`, those of a client with more data are fewer than its epochs.
        learning_rate: of clients.
        local: how clients train; a schedule of their rates follows their own steps, or the seconds
            since the server began.
        selected: clients per tick or round, s; all of them by default.
        selection: which clients, by a rule such as `favano.LeastRecent()`.
        tick: seconds between two ticks, for methods that poll.
        deadline: seconds that a round lasts at most, for methods with rounds.
        grace: seconds that a tick waits for client updates that are due.
        seed: of all draws.
        samples: of each client, for methods that weigh by them and rules that select by them.
        step_seconds: mean duration of a step, until it is measured.
        lost_seconds: time per contact in which a client cannot train, until it is measured.
        server: transforms of client deltas and of the server's step, in order, such as
            `[favano.clip(1.0), favano.adam(0.01)]`.
        codec: how models are packed, both ways: qsgd:BITS, min-max:BITS or
            lattice:BITS:SCALE[:dither]; none: they are not.
        buffers: BatchNorm statistics: average, or local, each client its own.
        influence: no client moves the model further than so many times the median of the others,
            for nodes that may lie; what is longer is shortened, and nothing is used of a client
            before another has made steps; None: as far as it says.
        norm: bound of a client's contribution, after its weight; what is longer is refused.
        fastest_step: seconds that a step takes at least; claims of faster clients are refused.
        deal: how data are dealt; client updates of shares that were dealt otherwise are refused.
        evaluate_every: rounds between two evaluations.
        folder: for checkpoints and the trace; None: nothing is written.
        live: keep a status that other threads can read.
        resume: go on from the checkpoint in the folder.
        operator: operator.key of `favano keys`, with which calls are signed.
    """

    method: AnyMethod = field(kw_only=False)
    clients: int
    local_steps: int | Sequence[int]
    learning_rate: float
    local: LocalTraining
    policy: APolicy | None = None
    selected: int | None = None
    selection: ASelection = "uniform"
    tick: float | None = None
    deadline: float | None = None
    grace: float = 0.0
    seed: int = 0
    samples: Sequence[int] | None = None
    step_seconds: float = 1.0
    lost_seconds: float = 0.0
    server: Sequence[ATransform] = ()
    codec: str = "none"
    buffers: Buffers = "average"
    influence: float | None = None
    norm: NormGate | None = None
    fastest_step: float = 0.0
    deal: Partitioning | None = None
    evaluate_every: int = 1
    folder: Path | str | None = None
    resume: bool = False
    live: bool = False
    operator: Path | str | None = None
    say: Callable[[str], None] = _log.info

    def __post_init__(self) -> None:
        require(self.clients >= 1, "clients", self.clients, "need at least 1")
        selected = self.clients if self.selected is None else self.selected
        check_selected(selected, self.clients)
        require(
            self.learning_rate > 0, "learning_rate", self.learning_rate, "need a positive number"
        )
        training, steps = self.local.training, self.local_steps
        self._local_steps = steps if isinstance(steps, int) else tuple(steps)
        check_training(training, learning_rate=self.learning_rate, local_steps=self._local_steps)
        fits = isinstance(steps, int) or len(steps) == self.clients
        rule = f"need one number for all clients, or one for each ({self.clients})"
        require(fits, "local_steps", steps, rule)
        known = get_args(Buffers)
        require(self.buffers in known, "buffers", self.buffers, f"need {' or '.join(known)}")
        require(self.evaluate_every >= 1, "evaluate_every", self.evaluate_every, "need at least 1")
        has_folder = self.folder is not None
        require(has_folder or not self.resume, "resume", True, "need a folder to go on from")
        self.bound = self._bind(selected)
        policy = self.bound.run_policy
        reads, polls = policy.__dataclass_fields__, isinstance(policy, Polling)
        ticks = "waiting_time" in reads
        named = self.method.name if self.policy is None else f"policy {type(policy).__name__}"
        require(not ticks or self.tick is not None, "tick", None, "need seconds between two ticks")
        rule = f"requires a method that polls, not {named}"
        require(ticks or self.tick is None, "tick", self.tick, rule)
        require(polls or not self.grace, "grace", self.grace, rule)
        rule = f"has no effect with {named} and its options; remove it"
        read = self.bound.context.selection == Uniform() or "selection" in policy_keys(self.bound)
        require(read, "selection", self.selection, rule)
        rule = f"requires a method with rounds, not {named}"
        require("deadline" in reads or self.deadline is None, "deadline", self.deadline, rule)
        self._codec = read_codec(self.codec)
        Influence(policy, self.clients, self.influence)  # refuses a factor that cannot be
        check_method(self.method, policy, training, codec=self.codec, buffers=self.buffers)
        self.chain = tuple(map(as_transform, self.server))
        self._server_chain = ServerChain(self.bound, self.chain)
        self._ledger()  # refuses what cannot be done in real time
        self._board: Board | None = None
        self._is_alone = False
        self.metrics: dict[str, float] = {}  # shown on the status page

    @property
    def status(self) -> dict[str, object]:
        """The federation as it was a moment ago; may be read by any thread."""
        return {} if self._board is None else self._board.latest

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600.0,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Evaluate | None = None,
        *,
        clock: Clock | None = None,
        workers: Threads | None = None,
    ) -> AsyncResult:
        """Run the federation until there are so many updates; arguments as in Flower.

        Args:
            grid: Flower's.
            initial_arrays: the initial model, `ArrayRecord(model.state_dict())`; without parameters
                that are frozen in the networks of the nodes, which are not sent.
            num_rounds: updates of the server model.
            timeout: seconds that a client update may be late before its client is given up.
            train_config: must be empty: clients are told by `local`.
            evaluate_config: must be empty: clients' metrics come with their updates.
            evaluate_fn: measures the model after each round; it never holds a tick.
            clock: for tests.
            workers: for tests.
        """
        for name, given in (("train_config", train_config), ("evaluate_config", evaluate_config)):
            rule = "is not used; say how clients train by local=, and what they tell by metrics="
            require(not given, name, given, rule)
        with self.alone(), threads() if workers is None else nullcontext(workers) as pool:
            return self._run(grid, initial_arrays, num_rounds, timeout, evaluate_fn, clock, pool)

    @contextmanager
    def alone(self, initial_arrays: ArrayRecord | None = None) -> Iterator[None]:
        """Let no other process work in the folder, also before and after `start`.

        With an initial model, a folder that holds another federation is refused at once.
        """
        if self.folder is None or self._is_alone:
            yield
            return
        with folder_lock(Path(self.folder), "folder"):
            if initial_arrays is not None:
                flat = flat_arrays(initial_arrays)
                aggregator = self._aggregator(flat, flat.vector(initial_arrays), self._ledger())
                self._saved(self._files, flat, aggregator)
            self._is_alone = True
            try:
                yield
            finally:
                self._is_alone = False

    @property
    def _files(self) -> CheckpointFolder | None:
        if self.folder is None:
            return None
        return CheckpointFolder(Path(self.folder) / CHECKPOINT, self.say)

    def _run(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int,
        timeout: float,
        evaluate_fn: Evaluate | None,
        clock: Clock | None,
        workers: Threads,
    ) -> AsyncResult:
        flat = flat_arrays(initial_arrays)
        ledger = self._ledger()
        aggregator = self._aggregator(flat, flat.vector(initial_arrays), ledger)
        folder, files = None if self.folder is None else Path(self.folder), self._files
        saved = self._saved(files, flat, aggregator)
        if folder is not None:
            _make_private(folder / CHECKPOINT)
            _make_private(folder / JOURNAL)
        run = saved.standing.run if saved else secrets.token_hex(8)
        clock = clock or WallClock(saved.standing.now if saved else 0.0)
        if self.live:
            self._board = Board(self.bound.title, num_rounds, self.influence, lambda: self.metrics)
        evaluations = Evaluations(
            evaluate_fn, self.evaluate_every, num_rounds, flat, workers.evaluating
        )
        shape = flat.shape
        link = ServerLink(shape, self._codec, seed=self.seed)
        mailbox = Mailbox(
            grid,
            Executors(workers.sending, workers.finding, workers.fetching),
            None if folder is None else Journal(folder / JOURNAL),
            most=shape.bytes_of(self._codec) + _OVERHEAD,
            say=self._say,
            now=clock.now,
        )
        if self.influence is not None:
            self._say(
                f"no client moves the model further than {self.influence:g} times the median of "
                "the others (--influence): nothing is used of a client before another has made "
                "steps"
            )
        influence = Influence(self.bound.run_policy, self.clients, self.influence)
        identity = self._identity(flat)
        terms = ServerConfig(
            run,
            self.seed,
            to_json(self.local_training),
            self.method.name,
            identity,
            timeout,
            sign=None if self.operator is None else signer_of(Path(self.operator), folder),
        )
        tools = Services(
            grid,
            mailbox,
            clock,
            link,
            Gatekeeper(run, link, flat, fastest=self.fastest_step, deal=self.deal),
            self.norm or NormGate(),
            influence,
            workers.finding,
            workers.sending,
            files,
            self._say,
            evaluations,
            self._board,
        )
        server = Server(terms, aggregator, ledger, tools)
        try:
            if saved is not None:
                server.restore(saved)
            else:
                evaluations.measure(0, aggregator.initial)
            server.run(num_rounds)
        finally:
            mailbox.close()
        workers.sending.submit(lambda: None).result()  # the last calls and checkpoint have left
        if folder is not None:
            models = {INITIAL: aggregator.initial, MODEL: server.model}
            written = {name: flat.file(model) for name, model in models.items()}
            write_together(folder, {**written, TRACE: ledger.trace.to_bytes()})
        return AsyncResult(
            arrays=flat.arrays(server.model),
            train_metrics_clientapp={past.number: past.record() for past in server.rounds},
            evaluate_metrics_serverapp=evaluations.results(),
            rounds=server.rounds,
            nodes=node_records(ledger),
            refusals=sum(sum(of.values()) for of in ledger.refused.values()),
            trace=ledger.trace,
            influence=self.influence,
            most_unused=influence.most_unused,
        )

    def _say(self, sentence: str) -> None:
        """Say something in which there may be words of others."""
        self.say(one_line(sentence, _LINE))

    def _bind(self, selected: int) -> AnyMethod:
        """The method as a part of this federation; nobody knows exact weights here."""
        context = federation(
            self.clients,
            local_steps=self._local_steps,
            selected=selected,
            selection=as_selection(self.selection),
            tick=self.tick,
            deadline=self.deadline,
            step_seconds=self.step_seconds,
            samples=self.samples,
            accumulation=self.local_training.training.accumulation,
            policy=None if self.policy is None else as_policy(self.policy),
        )
        bound = measured(self.method).bind(context)
        bound.init(np.zeros(1))  # type: ignore[arg-type]  # so that errors come before any call
        return bound

    def _ledger(self) -> Ledger:
        policy = self.bound.run_policy
        if isinstance(policy, Polling):
            policy = replace(policy, grace=self.grace)
        known = {"step_seconds": self.step_seconds, "lost": self.lost_seconds}
        estimates = estimates_for(policy, self.clients, **known)
        return Ledger(
            policy,
            self.clients,
            self.seed,
            self._rates,
            packed=self._codec is not None,
            estimates=estimates,
        )

    def _rates(self, schedule: Schedule, now: float) -> Floats:
        """Step sizes of jobs that are handed out now."""
        time = np.full(len(schedule.client), now)
        factors = self.local.training.rate_factors(time, schedule.first_step, inf)
        return self.learning_rate * self.bound.job_rates(schedule) * factors

    def _aggregator(self, flat: FlatArrays, initial: Vector, ledger: Ledger) -> Aggregator[State]:
        return Aggregator(
            self.bound,
            ledger.timeline,
            flat.layout,
            lambda _, first: ledger.timeline.noted("rate")[first:],
            initial,
            memory=ClientMemory(self.bound, flat.layout, buffers=self.buffers),
            server=self._server_chain,
            non_finite="skip",
            expected=ledger.expected,
            scales=ledger.scales,
        )

    @property
    def local_training(self) -> LocalTraining:
        """How clients train, as the method suggests, and with the method if they need it."""
        pull = {"proximal": self.method.suggests.get("proximal")}
        training = filled(self.local.training, pull)
        method = self.method if self.method.memory else None
        return replace(self.local, training=training, method=method)

    def _saved(
        self, files: CheckpointFolder | None, flat: FlatArrays, aggregator: Aggregator[State]
    ) -> SavedServer | None:
        if files is None:
            return None
        if self.resume:
            return files.load(self._identity(flat), aggregator.remembered())
        rule = "holds the checkpoint of a federation; go on with resume, or choose a new folder"
        require(not files.exists, "folder", self.folder, rule)
        return None

    def _identity(self, flat: FlatArrays) -> dict[str, str]:
        """What must be equal for a federation to go on."""
        policy = self.bound.run_policy
        own = "" if is_ours(policy) else f" {source_digest(policy)}"
        keys = (
            "clients",
            "local_steps",
            "learning_rate",
            "seed",
            "grace",
            "codec",
            "buffers",
        )
        return {
            **{key: str(getattr(self, key)) for key in keys},
            "method": f"{self.method.name} {dict(self.method.given)}",
            "policy": f"{policy}{own}{source_digest(self.bound.context.selection) or ''}",
            "server": " ".join(f"{made} {source_digest(made)}" for made in self.chain),
            "local training": to_json(self.local_training),
            "model": str([(name, flat.shapes[name]) for name in flat.order]),
        }


def _make_private(folder: Path) -> None:
    """Make a folder that others cannot look into: it has what every single client has sent."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise WriteFailed(f"out={folder}: could not be written: {error.strerror}") from error
