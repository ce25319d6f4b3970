"""Runs that go on from a snapshot: the same moments as without a break, to the bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import NamedTuple, TypeAlias

import numpy as np
import pytest
import torch

from favano.aggregation import Aggregator, NoSnapshot, Snapshot, pack, unpack
from favano.aggregation.packing import named_kinds
from favano.aggregation.snapshot import KINDS, RunMemory
from favano.engine import Engine, PlainLoop, RunEvent, Scoring, ServerVersion
from favano.methods import State, our_methods
from favano.quantisation import Lattice, MinMax, Qsgd
from favano.training import one_thread
from favano.training.optimisers import Optimiser
from tests.engine.networks import BY_LOSS, CLIENTS, Problem, Seen, same, seen, shuffled, stack_lanes

KEPT = Optimiser("adam", 0.8, beta2=0.9, epsilon=1e-2, state="kept")
VARIANTS: Mapping[str, Callable[[], Problem]] = {
    **{name: partial(Problem, name, 3) for name in our_methods()},
    "by loss": partial(Problem, BY_LOSS, 3),
    "by loss, poisoned": partial(Problem, BY_LOSS, 2, poisoned=True),
    "by loss, kept optimiser": partial(Problem, BY_LOSS, 4, optimiser=KEPT),
    "poisoned": partial(Problem, "favano", 1, poisoned=True),
    "few bits, own models": partial(Problem, "quafl", 2, codec=MinMax(bits=5)),
    "differences, own models": partial(Problem, "quafl", 2, codec=Qsgd(bits=5)),
    "lattice, own models": partial(Problem, "quafl", 5, codec=Lattice(), poisoned=True),
    "dither": partial(Problem, "favano", 3, codec=Lattice(dither=True)),
    "few bits, corrections": partial(Problem, "scaffold", 4, codec=Qsgd(bits=5), poisoned=True),
    "few bits, a buffer": partial(Problem, "fedbuff", 3, codec=MinMax(bits=5)),
    "own statistics": partial(Problem, "favano", 6, buffers="local"),
    "own statistics, grows": partial(Problem, "asyncfeded", 7, buffers="local", poisoned=True),
    "own statistics, memories": partial(Problem, "asofed", 8, buffers="local"),
    "kept optimiser": partial(Problem, "favano", 2, optimiser=KEPT, poisoned=True),
    "kept optimiser, memories": partial(Problem, "asofed", 4, optimiser=KEPT),
    "kept optimiser, own models": partial(
        Problem, "quafl", 3, optimiser=KEPT, codec=MinMax(bits=5)
    ),
    "server's optimiser": partial(
        Problem, "fedbuff", 8, server=["clip:0.5", "momentum:0.5", "adam:0.1:0.9:0.1:0.9"]
    ),
}
QUEUE: dict[str, object] = {"concurrency": CLIENTS}
EVERY = pytest.mark.parametrize("name", VARIANTS)


@cache
def problem(name: str) -> Problem:
    return VARIANTS[name]()


def reread(snapshot: Snapshot, run: Aggregator[State]) -> Snapshot:
    """A copy that shares nothing with the snapshot, as from a file."""
    kinds = {*KINDS, *named_kinds((run.state, run.server_states))}
    copied = unpack(pack(snapshot, kinds), kinds, run.initial)
    assert isinstance(copied, Snapshot)
    return copied


def bits(memory: RunMemory, run: Aggregator[State]) -> object:
    """Everything that is remembered, to be compared."""

    def plain(value: object) -> object:
        if isinstance(value, list):
            return [plain(item) for item in value]
        return value.tobytes() if isinstance(value, np.ndarray) else value

    return plain(pack(memory, {*KINDS, *named_kinds((run.state, run.server_states))}))


def in_lanes(run: Aggregator[State], case: Problem) -> Iterator[ServerVersion]:
    for step in Engine([run], shuffled([case], 3)).events(at_once=1):
        assert isinstance(step.event, ServerVersion)
        yield step.event


def in_a_loop(run: Aggregator[State], case: Problem) -> Iterator[ServerVersion]:
    return PlainLoop(run, case.trainer).events()


Way: TypeAlias = Callable[[Aggregator[State], Problem], Iterator[ServerVersion]]
WAYS = pytest.mark.parametrize("way", [in_lanes, in_a_loop])


def later(case: Problem, version: int) -> Sequence[Seen]:
    """What an uninterrupted run gives from a version on; the refusals of that version are past."""
    first, *rest = case.alone[version + 1 :]
    return [first._replace(refused=[]), *rest]


@pytest.mark.quick("scaffold-in_lanes")
@WAYS
@EVERY
def test_a_run_goes_on_from_any_moment(name: str, way: Way) -> None:
    case = problem(name)
    with one_thread():
        run = case.aggregator()
        saved = [reread(event.snapshot(), run) for event in way(run, case)]
        assert [past.version for past in saved] == list(range(-1, run.timeline.updates))
        for snapshot in saved[:: max(1, len(saved) // 6)] + saved[-1:]:
            again = case.aggregator()
            again.restore(snapshot)
            moments, remembered = [], None
            for event in way(again, case):
                moments.append(seen(event))
                if again.over:
                    remembered = bits(event.snapshot().memory, again)
            same(moments, later(case, snapshot.version))
            assert remembered == bits(saved[-1].memory, run)


def every_third(run: int, version: int) -> bool:
    return version % 3 == 2


def on_stacks(runs: Sequence[Aggregator[State]], some: Sequence[Problem]) -> Iterator[RunEvent]:
    """As on a GPU: updates of all runs together, and several of one run at once."""
    scoring = Scoring(every_third, every_third, lambda models: models[:, :2])
    return Engine(runs, stack_lanes(some, 20), products=True, scoring=scoring).events(at_once=50)


def check_together(device: str) -> None:
    """Runs of all kinds go on together, each from the moment in its middle."""
    some = [
        *(Problem(name, 3, device=device) for name in our_methods()),
        Problem(BY_LOSS, 3, device=device),
        Problem("quafl", 2, codec=MinMax(bits=5), device=device),
        Problem("favano", 6, buffers="local", device=device),
        Problem("fedavg", 2, optimiser=KEPT, poisoned=True, device=device),
    ]
    runs = [case.aggregator() for case in some]
    saved: dict[int, Snapshot] = {}
    for number, event, _ in on_stacks(runs, some):
        assert isinstance(event, ServerVersion)
        if event.version <= runs[number].schedule.updates // 2:
            saved[number] = reread(event.snapshot(), runs[number])
    again = [case.aggregator() for case in some]
    for number, snapshot in saved.items():
        again[number].restore(snapshot)
    ends: dict[int, Seen] = {}
    for number, event, _ in on_stacks(again, some):
        assert isinstance(event, ServerVersion)
        assert event.version >= saved[number].version >= 0
        ends[number] = seen(event)
    assert len(ends) == len(some)
    for number, end in ends.items():
        same([end._replace(refused=[])], [some[number].alone[-1]._replace(refused=[])], 1e-10)


@pytest.mark.slow
def test_runs_go_on_together() -> None:
    check_together("cpu")


@pytest.mark.gpu
def test_runs_go_on_together_on_a_gpu() -> None:
    check_together("cuda")


@pytest.mark.parametrize("way", [in_lanes, in_a_loop])
def test_a_longer_course_finds_every_start_model(way: Way) -> None:
    """Of clients with queues of jobs, also after a run that was interrupted before."""
    short, long = (Problem("asyncsgd", 1, keys=QUEUE | {"horizon": end}) for end in (60.0, 100.0))

    def snapshots(run: Aggregator[State]) -> list[Snapshot]:
        return [reread(event.snapshot(), run) for event in way(run, short)]

    with one_thread():
        saved = snapshots(short.aggregator())
        interrupted = short.aggregator()
        interrupted.restore(saved[len(saved) // 2])
        for end in (saved[-2], snapshots(interrupted)[-2]):
            pairs = zip(end.waiting.client.tolist(), end.waiting.place.tolist(), strict=True)
            assert any(end.held.place[client] != place for client, place in pairs)
            again = long.aggregator()
            again.restore(end)
            same([seen(event) for event in way(again, long)], later(long, end.version))


def test_an_odd_state_is_refused_by_name() -> None:
    for value in (
        {1},
        object(),
        np.array([object()]),
        Odd(1),
        torch.zeros(1, dtype=torch.bfloat16),
    ):
        with pytest.raises(NoSnapshot, match="cannot be saved"):
            pack([value], ())


class Odd(NamedTuple):
    number: int


def test_plain_data_keep_their_types() -> None:
    value = (
        {1: torch.ones(2), "a": [np.float32(0.1), np.int64(3), True, None]},
        Odd(2), (), np.arange(2), 1e300, "text",
    )  # fmt: skip
    unpacked = unpack(pack(value, {Odd}), {Odd}, torch.empty(0))
    assert repr(unpacked) == repr(value)
