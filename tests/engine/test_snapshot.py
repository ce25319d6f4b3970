"""Runs that go on from a snapshot: the same moments as without a break, to the bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import TypeAlias

import pytest

from favano.engine import Aggregator, Engine, Moment, PlainLoop, Snapshot, pack, unpack
from favano.engine.packing import named_kinds
from favano.engine.snapshot import KINDS
from favano.errors import NonFiniteUpdate
from favano.methods import State, our_methods
from favano.methods.server_optimiser import ServerOptimiser
from favano.quantisation import Lattice, MinMax, Qsgd
from favano.training import one_thread
from favano.training.optimisers import Optimiser
from tests.engine.networks import Problem, Seen, same, seen, shuffled

KEPT = Optimiser("adam", 0.8, beta2=0.9, epsilon=1e-2, state="kept")
VARIANTS: Mapping[str, Callable[[], Problem]] = {
    **{name: partial(Problem, name, 3) for name in our_methods()},
    "poisoned": partial(Problem, "favano", 1, poisoned=True),
    "few bits, own models": partial(Problem, "quafl", 2, codec=MinMax(bits=5)),
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
        Problem, "fedbuff", 8, server=ServerOptimiser("adam", 0.1, 0.9, 0.1, 0.9)
    ),
}
EVERY = pytest.mark.parametrize("name", list(VARIANTS))


@cache
def problem(name: str) -> Problem:
    return VARIANTS[name]()


def reread(snapshot: Snapshot, run: Aggregator[State]) -> Snapshot:
    """A copy that shares nothing with the snapshot, as from a file."""
    kinds = {*KINDS, *named_kinds(run.state)}
    found = unpack(pack(snapshot, kinds), kinds, run.initial)
    assert isinstance(found, Snapshot)
    return found


def in_lanes(run: Aggregator[State], one: Problem) -> Iterator[Moment]:
    for step in Engine([run], shuffled([one], 3)).steps(at_once=1):
        assert not isinstance(step.moment, NonFiniteUpdate)
        yield step.moment


def in_a_loop(run: Aggregator[State], one: Problem) -> Iterator[Moment]:
    return PlainLoop(run, one.trainer).moments()


Way: TypeAlias = Callable[[Aggregator[State], Problem], Iterator[Moment]]
WAYS = pytest.mark.parametrize("way", [in_lanes, in_a_loop])


def later(one: Problem, version: int) -> Sequence[Seen]:
    """What an uninterrupted run gives from a version on; the refusals of that version are past."""
    first, *rest = one.alone[version + 1 :]
    return [first._replace(refused=[]), *rest]


@WAYS
@EVERY
def test_a_run_goes_on_from_any_moment(name: str, way: Way) -> None:
    one = problem(name)
    with one_thread():
        run = one.aggregator()
        saved = [reread(moment.snapshot(), run) for moment in way(run, one)]
        assert [one.version for one in saved] == list(range(-1, run.course.updates))
        for snapshot in saved[:: max(1, len(saved) // 6)] + saved[-1:]:
            again = one.aggregator()
            again.go_on_from(snapshot)
            found = [seen(moment) for moment in way(again, one)]
            same(found, later(one, snapshot.version))
