"""No node moves the model by more than three times the median honest one, whatever it says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr")

import numpy as np
import numpy.typing as npt
from flwr.app import ArrayRecord, Message, MetricRecord

from favano.errors import BadInput
from favano.flower.client import Client
from favano.flower.data_partition import DataPartition
from favano.flower.local_training import LocalTraining
from favano.flower.rounds import AsyncResult
from favano.flower.strategy import AsyncStrategy
from favano.flower.wire import Reply, read_reply, reply_message
from favano.methods import make_method
from favano.schedule.contact_trace import load_trace
from favano.screening import NormGate, Refusal
from favano.specification.parts import TrainingPart
from favano.transforms.median import Median
from tests.flower.fake_grid import Killed, Node, OwnTime, VirtualTime
from tests.flower.federations import (
    diverges,
    grid_of,
    lived,
    model_of,
    refusals,
    same_models,
    strategy_of,
)
from tests.flower.scripted import (
    Change,
    Lie,
    Numbers,
    as_if,
    federated,
    grid_with,
    scripted,
    strategy_with,
)

Lengths = npt.NDArray[np.float64]
FIRST_BUFFER = 6 * 8 + 8 + 8 + 8 + 8 * 3 + 3  # of the network of `calls`

HONEST, WIDTH, STEPS = 5, 4, 20
LIAR = HONEST  # the last client
SIZE = (HONEST + 1) * WIDTH
UNEVEN = (0.02, 0.05, 0.2, 1.0)
PACES = (0.3, 0.5, 0.8, 1.2, 2.0, 0.5)  # seconds of a step

METHODS: Mapping[str, tuple[str, dict[str, object]]] = {
    "favano": ("favano", {}),
    "favano deterministic": ("favano", {"reweight": "deterministic"}),
    "favano-delta": ("favano-delta", {}),
    "fedbuff": ("fedbuff", {"buffer": 3}),
    "fedavg": ("fedavg", {}),
    "quafl": ("quafl", {}),
    "fedbuff, twice each": ("fedbuff", {"buffer": 12}),
}


def own(client: int) -> Change:
    """Each client changes numbers of its own, so that everybody's part in the model is seen."""
    draws = np.random.default_rng(client)

    def change(steps: int) -> Numbers:
        numbers = np.zeros(SIZE, np.float32)
        noise = draws.normal(size=(steps, WIDTH)).sum(axis=0)
        numbers[client * WIDTH : (client + 1) * WIDTH] = 0.01 * (steps + noise)
        return numbers

    return change


def whole_job(client: int) -> Change:
    """All K steps' progress, however many are claimed."""
    honest = own(client)
    return lambda _: honest(STEPS)


def claims(steps: int) -> Lie:
    return lambda reply, _: as_if(lambda end: end, steps=steps)(reply, 0)


def lengthened(factor: float) -> Change:
    honest = own(LIAR)
    return lambda _: (honest(STEPS) * np.float32(factor)).astype(np.float32)


def hoarding(change: Change, empty: int) -> tuple[Change, Lie]:
    """Says for some contacts that it made no step, then that it made one."""
    calls = [0]

    def hoarded(steps: int) -> Numbers:
        calls[0] += 1
        return change(steps) if calls[0] > empty else np.zeros(SIZE, np.float32)

    def lie(reply: Reply, number: int) -> Reply:
        return as_if(lambda end: end, steps=int(number > empty), seconds=0.5)(reply, 0)

    return hoarded, lie


def trusted_first(client: int, honest_calls: int) -> tuple[Change, Lie]:
    """Makes a record of whole jobs, then claims far fewer steps than that for the same progress."""

    def lie(reply: Reply, number: int) -> Reply:
        return reply if number <= honest_calls else claims(1)(reply, number)

    return whole_job(client), lie


LIARS: Mapping[str, Callable[[], tuple[Change, Lie]]] = {
    "one step": lambda: (whole_job(LIAR), claims(1)),
    "no step": lambda: (whole_job(LIAR), claims(0)),
    "one step, after a record": lambda: trusted_first(LIAR, 5),
    "ten empty client updates": lambda: hoarding(whole_job(LIAR), 10),
    "a hundred times": lambda: (lengthened(100.0), claims(STEPS)),
    "huge": lambda: (lengthened(1e32), claims(STEPS)),
}


@dataclass(frozen=True)
class Seen:
    """How far each client has moved the model: (clients,), and in each round, (rounds, clients)."""

    result: AsyncResult
    total: Lengths
    rounds: Lengths
    weight: float  # of the liar, as shown

    @property
    def ratio(self) -> float:
        """How far the liar has moved the model, for once the median honest client."""
        return float(self.total[LIAR] / np.median(self.total[:HONEST]))

    @property
    def jump(self) -> float:
        """The same for the longest step of each."""
        top = self.rounds.max(axis=0)
        return float(top[LIAR] / np.median(top[:HONEST]))


def seen(method: str, liar: Node | str | None, rounds: int = 40, **changes: Any) -> Seen:
    name, options = METHODS[method]
    usual = {"influence": 3.0, "live": True}
    strategy = strategy_with(name, HONEST + 1, options, **{**usual, **changes})
    nodes = [scripted(own(client), PACES[client]) for client in range(HONEST + 1)]
    if isinstance(liar, Node):
        nodes[LIAR] = liar
    elif liar is not None:
        change, lie = LIARS[liar]()
        nodes[LIAR] = scripted(change, PACES[LIAR], lie)
    models: list[Numbers] = []

    def look(_: int, arrays: ArrayRecord) -> MetricRecord:
        models.append(arrays.to_numpy_ndarrays()[0].reshape(HONEST + 1, WIDTH))
        return MetricRecord({})

    result = federated(strategy, nodes, rounds, SIZE, evaluate_fn=look)
    path = np.stack(models).astype(np.float64)
    status: dict[str, Any] = strategy.status
    lengths = np.linalg.norm(path, axis=2), np.linalg.norm(np.diff(path, axis=0), axis=2)
    return Seen(result, lengths[0][-1], lengths[1], status["clients"][LIAR]["weight"])


@pytest.mark.quick(
    "favano-one step",
    "favano deterministic-one step",
    "favano-delta-one step",
    "fedbuff-one step",
    "fedavg-one step",
    "quafl-one step",
    "fedbuff, twice each-one step",
)
@pytest.mark.parametrize("liar", LIARS)
@pytest.mark.parametrize("method", METHODS)
def test_no_node_moves_the_model_by_more_than_three_times_the_median(
    method: str, liar: str
) -> None:
    outcome = seen(method, liar)
    assert outcome.ratio <= 3.0
    assert outcome.jump <= 3.0
    assert outcome.result.refusals == 0 or set(refusals(outcome.result)) == {LIAR}


@pytest.mark.quick("favano-delta-one step", "fedavg-one step")
@pytest.mark.parametrize("liar", ["one step", "ten empty client updates", "a hundred times"])
@pytest.mark.parametrize("method", ["favano-delta", "fedbuff", "fedavg"])
def test_nor_does_it_where_the_server_has_momentum(method: str, liar: str) -> None:
    """Momentum makes more of each step of the server, but of all of its parts alike."""
    federation = seen(method, liar, server=["momentum"])
    assert federation.ratio <= 3.0
    assert federation.jump <= 3.0


@pytest.mark.quick("favano deterministic-one step-15.0")
@pytest.mark.parametrize(
    ("method", "liar", "least"),
    [
        ("favano", "one step", 15.0),
        ("favano", "one step, after a record", 8.0),
        ("favano", "ten empty client updates", 15.0),
        ("favano deterministic", "one step", 15.0),
        ("favano-delta", "one step", 15.0),
        ("fedbuff", "a hundred times", 50.0),
        ("fedavg", "a hundred times", 50.0),
    ],
)
def test_without_a_bound_the_attacks_work(method: str, liar: str, least: float) -> None:
    """And what is shown as weight is the share of the movement: most of it is the liar's."""
    outcome = seen(method, liar, influence=None)
    assert outcome.ratio > least
    assert outcome.weight > 0.6


@pytest.mark.parametrize(
    "gate",
    [
        {"norm": NormGate(1.0)},
        {"norm": NormGate(quantile=0.5)},
        {"server": ["clip:1.0"]},
    ],
    ids=["norm", "quantile", "clip"],
)
def test_the_factor_holds_under_every_gate(gate: dict[str, Any]) -> None:
    assert seen("favano", "ten empty client updates", **gate).ratio <= 3.0


def test_norm_gates_see_contributions_as_they_are_applied() -> None:
    """A job of 20 steps is longer than the bound, but each of its steps counts for a twentieth."""
    gate: dict[str, Any] = {"influence": None, "norm": NormGate(0.15)}
    assert not seen("favano", None, **gate).result.refusals
    federation = seen("favano", "one step", **gate)
    assert refusals(federation.result) == {LIAR: {Refusal.NORM.value: federation.result.refusals}}
    assert federation.total[LIAR] == 0
    assert federation.weight == 0
    assert not federation.result.nodes[LIAR].contacts
    assert all(LIAR not in round_.clients for round_ in federation.result.rounds)


def test_clipping_alone_bounds_who_understates_steps() -> None:
    """A norm that whole jobs exceed, and no honest contribution much."""
    federation = seen("favano", "one step", influence=None, server=["clip:0.05"])
    assert federation.ratio < 3.0
    honest = seen("favano", None, influence=None, server=["clip:0.05"]).total
    assert np.allclose(honest, seen("favano", None, influence=None).total, rtol=0.25)


def test_a_refused_contribution_is_in_no_mean() -> None:
    """Three of six send a hundred times too much; of the others, the median is taken."""
    strategy = strategy_with(
        "fedavg", 6, {}, selected=6, influence=None, norm=NormGate(5.0), server=["median"]
    )
    long, short = np.full(SIZE, 10.0, np.float32), np.full(SIZE, 0.1, np.float32)
    nodes = [scripted(lambda _, n=n: long if n < 3 else short, 1.0) for n in range(6)]  # type: ignore[misc]
    result = federated(strategy, nodes, 4, SIZE)
    assert np.allclose(result.arrays.to_numpy_ndarrays()[0], 4 * 0.1)
    assert refusals(result) == {who: {Refusal.NORM.value: 4} for who in range(3)}


def test_robust_rules_are_applied_once_per_update(monkeypatch: pytest.MonkeyPatch) -> None:
    taken, calls = Median.deltas, [0]

    def counted(self: Median, *given: Any) -> Any:
        calls[0] += 1
        return taken(self, *given)

    monkeypatch.setattr(Median, "deltas", counted)
    seen("favano", "one step", rounds=7, server=["median"])
    assert calls == [7]


def test_who_answers_at_once_gains_nothing() -> None:
    """Of FedBuff, where who is back first is called again."""
    change = lengthened(100.0)
    lie = claims(STEPS)
    outcome = seen("fedbuff", scripted(change, 1e-3, lie), rounds=80)
    assert outcome.result.nodes[LIAR].contacts > 1.2 * outcome.result.nodes[1].contacts
    assert outcome.ratio <= 3.0


def test_a_liar_does_not_move_the_bound_step_by_step() -> None:
    """Every answer a little longer than the one before."""
    calls, honest = [0], own(LIAR)

    def change(_: int) -> Numbers:
        calls[0] += 1
        return honest(STEPS) * np.float32(1.3 ** calls[0])

    outcome = seen("fedavg", scripted(change, PACES[LIAR], claims(STEPS)), rounds=100)
    assert outcome.ratio <= 3.0


@pytest.mark.quick("favano-delta")
@pytest.mark.parametrize("method", METHODS)
def test_honest_nodes_are_left_alone(method: str) -> None:
    outcome = seen(method, None)
    assert outcome.result.refusals == 0
    clipped = [node.clipped for node in outcome.result.nodes]
    # long windows count for more than their share; fast nodes are several times in an update
    if method in ("favano deterministic", "fedbuff, twice each"):
        assert sum(clipped) <= 2
        clipped = []
    assert not any(clipped)
    assert np.allclose(outcome.weight, 1 / 6, atol=0.1)


def test_a_node_that_is_alone_is_trusted_and_the_first_of_several_waits() -> None:
    lonely = strategy_with("fedasync", 2, {}, influence=3.0)
    assert not federated(lonely, [scripted(own(0), 1.0)], 5, SIZE).nodes[0].clipped
    both = [scripted(own(0), 1.0), scripted(own(1), 4.0)]
    said: list[str] = []
    strategy = strategy_with("fedasync", 2, {}, influence=3.0, say=said.append)
    result = federated(strategy, both, 12, SIZE)
    assert result.trace is not None
    client, scale = result.trace.schedule.client[:12], result.trace.scale[:12]
    first = int(np.flatnonzero(client == 1)[0])
    assert set(scale[:first]) == {0.0}  # nobody to compare it with
    assert set(scale[first:]) == {1.0}
    waits = "client 0 cannot be compared yet: 0 % of its update to job 0 is used"
    assert [line for line in said if line.startswith(waits)]
    assert not [line for line in said if "moves the model too far" in line]


def test_an_update_that_would_make_the_model_infinite_is_refused() -> None:
    """A client that is alone, so that there is no bound."""
    calls = [0]

    def change(steps: int) -> Numbers:
        calls[0] += 1
        return np.full(SIZE, 3e38 if calls[0] in (3, 4) else 0.01, np.float32)

    said: list[str] = []
    options: dict[str, object] = {"server_learning_rate": 10.0}
    strategy = strategy_with("fedavg", 1, options, say=said.append)
    result = federated(strategy, [scripted(change, 1.0)], 10, SIZE)
    last = result.arrays.to_numpy_ndarrays()[0]
    assert np.allclose(last, 8 * 0.1)
    assert refusals(result) == {0: {Refusal.INFINITE.value: 2}}
    assert sum("would make the model infinite" in line for line in said) == 2


def test_an_update_that_is_refused_is_no_change_at_all_however_long_it_is() -> None:
    """A client that is alone; its second change is longer than the largest number."""
    numbers, said = iter([3e38, -3e38, -3e38]), list[str]()
    ends: Lie = lambda reply, _: as_if(lambda end: 0 * end + next(numbers, 1.0))(reply, 0)  # noqa: E731
    strategy = strategy_with("fedavg", 1, {}, say=said.append)
    result = federated(strategy, [scripted(own(0), 1.0, ends)], 3, SIZE)
    assert np.allclose(result.arrays.to_numpy_ndarrays()[0], 3e38)
    assert refusals(result) == {0: {Refusal.INFINITE.value: 2}}


def test_nor_may_the_model_that_a_client_goes_on_from_become_infinite() -> None:
    """Of QuAFL with s = 2, where it is made of twice the client's own one; the server's is not."""
    calls = [0]

    def change(steps: int) -> Numbers:
        calls[0] += 1
        return np.full(SIZE, 3e38 if calls[0] == 2 else 0.01, np.float32)

    strategy = strategy_with("quafl", 2, {}, selected=2)
    result = federated(strategy, [scripted(change, 1.0)], 6, SIZE)
    assert refusals(result) == {0: {Refusal.INFINITE.value: 1}}
    assert np.abs(result.arrays.to_numpy_ndarrays()[0]).max() < 1.0


def test_buffers_have_a_bound_of_their_own() -> None:
    """A client with honest parameters and BatchNorm statistics of 1e30."""

    def poisoned(reply: Message, number: int) -> Message:
        content = read_reply(reply)
        numbers = np.frombuffer(content.model, dtype="<f4").copy()
        numbers[FIRST_BUFFER : FIRST_BUFFER + 16] = 1e30
        return reply_message(replace(content, model=numbers.tobytes()), reply)

    grid = grid_of()
    grid.nodes[102].tamper = poisoned
    strategy = strategy_of("fedavg", selected=3, influence=3.0)
    result = lived(strategy, grid, rounds=6)
    assert model_of(result.arrays).abs().max() < 100.0
    assert [node.clipped for node in result.nodes][2] == 6


@pytest.mark.quick("none-half", "qsgd:8-no step")
@pytest.mark.parametrize(
    ("counted", "claimed"),
    [(3.4e38, 4), (17 * 4, 4), (-1.0, 4), (2.5, 4), (1.0, 0)],
    ids=["huge", "17 a step", "fewer", "half", "no step"],
)
@pytest.mark.parametrize("codec", ["none", "qsgd:8"])
def test_no_client_sets_the_counters_that_others_go_on_from(
    counted: float, claimed: int, codec: str
) -> None:
    """Of BatchNorm's batches the largest count is taken: too large a one, and nobody can train."""
    said: list[str] = []

    def counting(reply: Message, _: int) -> Message:
        content = read_reply(reply)
        last = np.frombuffer(content.model[-4:], "<f4") + np.float32(counted - content.steps)
        lie = replace(content, model=content.model[:-4] + last.tobytes(), steps=claimed)
        return reply_message(lie, reply)

    grid = grid_of()
    grid.nodes[102].tamper = counting
    strategy = strategy_of("fedavg", codec=codec, say=said.append)
    result = lived(strategy, grid, rounds=6)
    assert len(result.rounds) == 6
    assert set(refusals(result)) == {2}
    assert set(refusals(result)[2]) == {Refusal.COUNTERS.value}
    assert any("client 2" in line and "1.num_batches_tracked from 0 to" in line for line in said)
    assert result.arrays["1.num_batches_tracked"].numpy() == 6 * 4
    assert not any(node.failures for node in result.nodes)


def test_a_batch_norm_may_count_up_to_16_times_a_step() -> None:
    """It may be used more than once in a forward pass."""

    def often(reply: Message, _: int) -> Message:
        content = read_reply(reply)
        numbers = np.frombuffer(content.model, dtype="<f4").copy()
        numbers[-1] *= 16  # from 0
        return reply_message(replace(content, model=numbers.tobytes()), reply)

    grid = grid_of(PACES[:1])
    grid.nodes[100].tamper = often
    result = lived(strategy_of("fedavg", clients=1, selected=1), grid, rounds=1)
    assert not result.refusals
    assert result.arrays["1.num_batches_tracked"].numpy() == 16 * 4


def test_what_was_shortened_is_replayed_to_the_bit(tmp_path: Path) -> None:
    """Honest clients, and a bound that no client keeps; also after a crash."""
    whole = lived(strategy_of(influence=1.0), rounds=9)
    assert sum(node.clipped for node in whole.nodes) > 3
    assert diverges(strategy_of(influence=1.0), whole).equal
    assert not diverges(strategy_of(influence=1.0), lived(strategy_of(), rounds=9)).largest
    grid = grid_of()
    time = VirtualTime(grid, kill_at=40.0)
    with pytest.raises(Killed):
        lived(strategy_of(influence=1.0, folder=tmp_path), grid, 9, time=time)
    again = strategy_of(influence=1.0, folder=tmp_path, resume=True)
    result = lived(again, grid, rounds=9)
    assert same_models(result, whole)
    assert diverges(again, result).equal
    trace = load_trace(tmp_path / "trace.npz")
    assert whole.trace is not None
    assert (trace.scale == whole.trace.scale).all()


@pytest.mark.parametrize("buffers", ["average", "local"])
def test_models_of_their_own_that_were_shortened_are_replayed_to_the_bit(buffers: str) -> None:
    strategy = strategy_of("quafl", influence=1.0, buffers=buffers)
    result = lived(strategy, rounds=6)
    assert sum(node.clipped for node in result.nodes) > 1
    assert diverges(strategy, result).equal


@pytest.mark.quick("own models")
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"method": "quafl", "buffers": "local"},
        {"method": "fedbuff", "codec": "qsgd:8"},
        {"local": LocalTraining(4, training=TrainingPart(momentum=0.9, optimiser_state="kept"))},
    ],
    ids=["favano", "own models", "packed", "kept momentum"],
)
def test_what_a_gate_refuses_is_replayed_to_the_bit(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    """A bound that some honest contributions exceed; also after a crash."""

    def strategy(**more: Any) -> AsyncStrategy:
        return strategy_of(**changes, norm=NormGate(quantile=0.5, factor=1.0), **more)

    whole = lived(strategy(), rounds=25)
    assert whole.refusals > 3
    assert sum(node.contacts for node in whole.nodes) > 10
    assert diverges(strategy(), whole).equal
    grid = grid_of()
    with pytest.raises(Killed):
        lived(strategy(folder=tmp_path), grid, 25, time=VirtualTime(grid, kill_at=110.0))
    result = lived(strategy(folder=tmp_path, resume=True), grid, rounds=25)
    assert same_models(result, whole)
    assert refusals(result) == refusals(whole)


def waiting(say: list[str], **changes: Any) -> AsyncStrategy:
    """FAVANO with two clients."""
    return strategy_with("favano", 2, {}, say=say.append, **changes)


def one_steps() -> list[Node]:
    """Of two nodes, one is too slow for a step between two ticks."""
    return [scripted(own(0), 0.5), scripted(own(1), 1e6)]


def test_a_federation_runs_its_method_unless_a_bound_is_asked_for() -> None:
    said: list[str] = []
    result = federated(waiting(said), one_steps(), 30, SIZE)
    assert result.trace is not None
    assert set(result.trace.scale) == {1.0}
    assert result.arrays.to_numpy_ndarrays()[0].any()
    assert not [line for line in said if "--influence" in line]
    assert "--influence" not in repr(result)
    assert not result.used_nothing


def test_a_bound_that_leaves_nothing_of_ten_updates_says_so(tmp_path: Path) -> None:
    """Once, with the flag's name; a server that goes on has counted those before."""
    said: list[str] = []
    whole = federated(waiting(said, influence=3.0), one_steps(), 30, SIZE)
    assert not whole.arrays.to_numpy_ndarrays()[0].any()
    told = [line for line in said if line.startswith("nothing of the last 10 client updates")]
    assert len(told) == 1
    assert "--influence" in told[0]
    contacts = whole.nodes[0].clipped
    assert contacts > 10
    assert f"--influence 3 was on, {contacts} client updates were shortened" in repr(whole)
    assert f"nothing of {contacts} in a row was used" in repr(whole)
    assert whole.used_nothing

    grid = grid_with(one_steps())
    start = ArrayRecord([np.zeros(SIZE, np.float32)])
    time = VirtualTime(grid, kill_at=100.0)
    with pytest.raises(Killed):
        waiting([], influence=3.0, folder=tmp_path).start(
            grid, start, 30, clock=time, workers=time.workers
        )
    again = waiting([], influence=3.0, folder=tmp_path, resume=True)
    assert federated(again, grid, 30, SIZE).most_unused == whole.most_unused


def test_a_bound_that_compares_is_told_and_no_failure() -> None:
    result = seen("favano", "a hundred times").result
    assert result.nodes[LIAR].clipped
    assert "--influence 3 was on" in repr(result)
    assert not result.used_nothing


def test_a_factor_below_one_is_refused() -> None:
    with pytest.raises(BadInput, match=r"influence=0\.5: need at least 1"):
        strategy_of(influence=0.5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "rounds", "most"), [("favano", 75, 1), ("fedavg", 12, 0), ("fedbuff", 40, 3)]
)
def test_uneven_honest_nodes_are_neither_refused_nor_held_back(
    name: str, rounds: int, most: int
) -> None:
    """The nodes of `benchmarks/uneven_nodes.py`, with its data and settings, in virtual time."""
    share = DataPartition(0, len(UNEVEN), split="dirichlet:0.5")
    nodes = []
    for part, pace in enumerate(UNEVEN):
        clock = OwnTime()
        own_share = DataPartition(part, len(UNEVEN), split="dirichlet:0.5")
        worker = Client(
            own_share.network(), own_share.data(), pace=pace, clock=clock.now, sleep=clock.sleep
        )

        def handle(
            message: Message, begin: float, worker: Client = worker, clock: OwnTime = clock
        ) -> tuple[Message, float]:
            clock.time = begin
            return worker.answer(message), clock.time

        nodes.append(Node(handle))
    strategy = AsyncStrategy(
        make_method(name, {"buffer": 2} if name == "fedbuff" else {}),
        clients=4, selected=2, local_steps=20, learning_rate=0.5, step_seconds=0.3,
        tick=2.0 if name == "favano" else None, grace=1.0 if name == "favano" else 0.0,
        local=LocalTraining(batch_size=16), influence=3.0,
    )  # fmt: skip
    grid = grid_with(nodes)
    time, start = VirtualTime(grid, most=100_000), ArrayRecord(share.network().state_dict())
    result = strategy.start(grid, start, rounds, 1e3, clock=time, workers=time.workers)
    assert result.trace is not None
    assert result.refusals == 0
    used = result.trace.scale[result.trace.schedule.used_by < rounds]
    assert np.count_nonzero(used < 1) <= most
