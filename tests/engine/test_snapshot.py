"""Runs that go on from a snapshot: the same moments as without a break, to the bit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

import pytest

from favano.engine import Aggregator, Engine, Moment, PlainLoop, Snapshot, pack, unpack
from favano.engine.packing import named_kinds
from favano.engine.snapshot import Held, Memory, Waiting
from favano.errors import NonFiniteUpdate
from favano.methods import State, our_methods
from favano.methods.server_optimiser import Moments, ServerOptimiser
from favano.quantisation import Lattice, MinMax, Qsgd
from favano.training import one_thread
from favano.training.optimisers import Optimiser
from tests.engine.networks import Problem, Seen, same, seen, shuffled

KEPT = Optimiser("adam", 0.8, beta2=0.9, epsilon=1e-2, state="kept")
VARIANTS = {
    **{name: lambda name=name: Problem(name, 3) for name in our_methods()},
    "poisoned": lambda: Problem("favano", 1, poisoned=True),
    "own models, few bits": lambda: Problem("quafl", 2, codec=MinMax(bits=5)),
    "own models, lattice, poisoned": lambda: Problem("quafl", 5, codec=Lattice(), poisoned=True),
    "dither": lambda: Problem("favano", 3, codec=Lattice(dither=True)),
    "corrections, few bits": lambda: Problem("scaffold", 4, codec=Qsgd(bits=5), poisoned=True),
    "buffer, few bits": lambda: Problem("fedbuff", 3, codec=MinMax(bits=5)),
    "own statistics": lambda: Problem("favano", 6, buffers="local"),
    "grows, own statistics": lambda: Problem("asyncfeded", 7, buffers="local", poisoned=True),
    "memories, own statistics": lambda: Problem("asofed", 8, buffers="local"),
    "kept optimiser": lambda: Problem("favano", 2, optimiser=KEPT, poisoned=True),
    "kept optimiser and memory": lambda: Problem("asofed", 4, optimiser=KEPT),
    "kept optimiser, own models": lambda: Problem(
        "quafl", 3, optimiser=KEPT, codec=MinMax(bits=5)
    ),
    "server's optimiser": lambda: Problem(
        "fedbuff", 8, server=ServerOptimiser("adam", 0.1, 0.9, 0.1, 0.9)
    ),
}
EVERY = pytest.mark.parametrize("name", list(VARIANTS))


@cache
def problem(name: str) -> Problem:
    return VARIANTS[name]()


def reread(snapshot: Snapshot, run: Aggregator[State]) -> Snapshot:
    """A copy that shares nothing with the snapshot, as from a file."""
    kinds = {Snapshot, Held, Waiting, Memory, Moments, *named_kinds(run.state)}
    found = unpack(pack(snapshot, kinds), kinds, run.initial)
    assert isinstance(found, Snapshot)
    return found


def in_lanes(run: Aggregator[State], one: Problem) -> Iterator[Moment]:
    for step in Engine([run], shuffled([one], 3)).steps(at_once=1):
        assert not isinstance(step.moment, NonFiniteUpdate)
        yield step.moment


def in_a_loop(run: Aggregator[State], one: Problem) -> Iterator[Moment]:
    return PlainLoop(run, one.trainer).moments()


WAYS = pytest.mark.parametrize("way", [in_lanes, in_a_loop])


def later(one: Problem, version: int) -> Sequence[Seen]:
    """What an uninterrupted run gives from a version on; the refusals of that version are past."""
    first, *rest = one.alone[version + 1 :]
    return [first._replace(refused=[]), *rest]


@WAYS
@EVERY
def test_a_run_goes_on_from_any_moment(name: str, way: type[in_lanes]) -> None:
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
