"""Compression on the link: what travels, read with which key, by which draws, in how many bits."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from favano.aggregation import Aggregator, Link
from favano.aggregation.link import first_versions
from favano.engine import Engine, PlainLoop, Recorder, evaluation_times
from favano.methods import Method, our_methods
from favano.methods.favano import Favano
from favano.methods.fedavg import FedAvg
from favano.methods.method import S
from favano.methods.quafl import Quafl
from favano.planning.schedules import make_schedule
from favano.quantisation import Codec, Lattice, MinMax, Qsgd, message_bits
from favano.rng import Stream, uniform
from favano.schedule import Schedule
from favano.timing import Trace, traced_fleet, two_speeds
from favano.training import Layout, one_thread
from favano.types import Ints, Vector
from tests.engine.networks import Problem, same, seen_of, shuffled
from tests.engine.test_conformance import CLIENTS, build, renumbered, setting
from tests.methods.bound import bound, scheduled
from tests.problems import Quadratics, close, quadratics, start_model, trainer_of

EVERY = pytest.mark.parametrize("name", list(our_methods()))
THREE: list[Codec] = [Lattice(dither=True), MinMax(bits=4), Qsgd(bits=4)]
FINE: list[Codec] = [Lattice(bits=32, scale=1e-8), MinMax(bits=32), Qsgd(bits=32)]
COARSE: list[Codec] = [
    Lattice(bits=4, scale=0.1),  # models are further apart than its radius
    Lattice(bits=8, scale=0.1, dither=True),
    MinMax(bits=3),
    Qsgd(bits=3),
]
SIZES = [3, 1]
SEED = 5
SERVER = 2**62


def label(codec: Codec) -> str:
    return f"{codec.name}-{codec.bits}"


def linked(
    method: Method[S], schedule: Schedule, codec: Codec | None, streams: Ints | None = None
) -> Aggregator[S]:
    clients = np.arange(schedule.clients) if streams is None else streams
    link = None if codec is None else Link(codec, SIZES, schedule, seed=SEED, streams=clients)
    layout = Layout(parameters=4, buffers=0, counters=0)
    rates = 0.1 * method.rates(schedule)
    return Aggregator(method, schedule, layout, rates, start_model(), link=link)


def carry(codec: Codec, sent: Vector, key: Vector, known: Vector, who: int, number: int) -> Vector:
    """One message by hand."""
    index = number * 2**32 + np.arange(codec.draws(4))
    noise = torch.from_numpy(uniform(SEED, Stream.QUANTISER, who, index))[None]
    base = known if codec.differences else torch.zeros_like(known)
    coded = codec.encode((sent - base)[None], noise, SIZES)
    return base + codec.decode(coded, key[None], SIZES)[0]


@pytest.mark.quick("lattice-32-favano", "lattice-32-fedasync", "lattice-32-fedprox")
@EVERY
@pytest.mark.parametrize("codec", FINE, ids=label)
def test_a_fine_codec_is_exact_communication(name: str, codec: Codec) -> None:
    """As delta -> 0 and Q delta -> infinity, and with many levels, in a whole run of any method."""
    method, schedule = build(name)
    trainer = trainer_of(method, quadratics(CLIENTS), 4)
    aggregator = linked(method, schedule, codec)
    coded = [event.server for event in PlainLoop(aggregator, trainer).events()]
    exact = [m.server for m in PlainLoop(linked(method, schedule, None), trainer).events()]
    assert all(close(a, b, 1e-6) for a, b in zip(coded, exact, strict=True))
    assert not torch.equal(coded[-1], exact[-1])
    assert aggregator.link is not None
    assert aggregator.link.wrapped == 0


@pytest.mark.parametrize("codec", COARSE, ids=label)
def test_quafl_as_its_algorithm_is_printed(codec: Codec) -> None:
    """The server reads with w_{t-1}, a client reads w_{t-1} with its live model (4.3)."""
    method = bound(Quafl(), two_speeds(10, seed=2), 5, selected=3)
    schedule = scheduled(method, 7 * 40, seed=2)
    trainer, server = quadratics(10), start_model()
    own, last = [server] * 10, [server] * 10
    contacts = [0] * 10
    wrapped = 0
    aggregator = linked(method, schedule, codec)
    for event in PlainLoop(aggregator, trainer).events():
        if event.version < 0:
            continue
        read = []
        for job in aggregator.timeline.jobs(event.version).tolist():
            i, steps = int(schedule.client[job]), int(schedule.steps[job])
            live = trainer.local(i, own[i], steps, float(aggregator.rates[job]))
            read.append(carry(codec, live, server, last[i], i, contacts[i]))
            last[i] = carry(codec, server, live, last[i], SERVER, event.version)
            own[i] = (last[i] + 3 * live) / 4
            contacts[i] += 1
            wrapped += 2 * int(codec.wrapped(live[None], server[None]))
        server = (server + torch.stack(read).sum(dim=0)) / 4
        assert close(event.server, server)
        spread = float(event.clients.spread(event.server).distances[0])
        assert spread == pytest.approx(float((torch.stack(own) - server).square().sum()))
    assert aggregator.link is not None
    assert aggregator.link.wrapped == wrapped
    assert (wrapped > 0) == (codec == COARSE[0])


@pytest.mark.parametrize("codec", COARSE, ids=label)
def test_clients_that_adopt_read_beside_what_they_were_last_handed(codec: Codec) -> None:
    method = bound(Favano(reweight="none"), two_speeds(10, seed=3), 5, selected=3)
    schedule = scheduled(method, 7 * 40, seed=3)
    trainer, server = quadratics(10), start_model()
    handed = [server] * 10
    contacts = [0] * 10
    aggregator = linked(method, schedule, codec)
    for event in PlainLoop(aggregator, trainer).events():
        if event.version < 0:
            continue
        jobs = aggregator.timeline.jobs(event.version)
        read = []
        for job in jobs.tolist():
            i, steps = int(schedule.client[job]), int(schedule.steps[job])
            end = trainer.local(i, handed[i], steps, float(aggregator.rates[job]))
            read.append(carry(codec, end, server, handed[i], i, contacts[i]))
            contacts[i] += 1
        server = (server + torch.stack(read).sum(dim=0)) / 4
        assert close(event.server, server)
        for i in schedule.client[jobs].tolist():
            handed[i] = carry(codec, server, handed[i], handed[i], SERVER, event.version + 1)
        spread = float(event.clients.spread(event.server).distances[0])
        assert spread == pytest.approx(float((torch.stack(handed) - server).square().sum()))
    assert aggregator.link is not None
    assert (aggregator.link.wrapped > 0) == (codec == COARSE[0])


@pytest.mark.quick("lattice-14-fedbuff", "lattice-14-fedfix")
@EVERY
@pytest.mark.parametrize("codec", THREE, ids=label)
def test_the_order_of_execution_changes_nothing(name: str, codec: Codec) -> None:
    """Of a network with BatchNorm statistics."""
    problem = Problem(name, 1, codec=codec)
    with one_thread():
        steps = Engine([problem.aggregator()], shuffled([problem], 20)).events(at_once=1)
        (moments,) = seen_of(steps, 1)
    same(moments, problem.alone)
    assert not torch.equal(moments[-1].server, Problem(name, 1).alone[-1].server)


@pytest.mark.quick("fedbuff", "fedfix")
@EVERY
def test_p16_renumbering_leaves_the_history_unchanged(name: str) -> None:
    spec = setting(name)
    trainer = quadratics(CLIENTS)
    order = np.random.default_rng(0).permutation(CLIENTS)
    moved = Quadratics(trainer.curvature[order], trainer.centre[order])
    histories = []
    for numbers, problem in ((np.arange(CLIENTS), trainer), (order, moved)):
        method = renumbered(spec, numbers)
        schedule = make_schedule(spec, method, 0)
        aggregator = linked(method, schedule, MinMax(bits=3), method.context.fleet.streams)
        trained = PlainLoop(aggregator, trainer_of(method, problem, 4)).events()
        histories.append([event.server for event in trained])
    assert all(torch.equal(a, b) for a, b in zip(*histories, strict=True))


def rows_of(codec: Codec | None) -> tuple[list[int], list[int]]:
    """Bits up and down of four synchronous rounds of two of three clients."""
    fleet = traced_fleet(Trace(tuple(np.array([2.0, 2.0]) for _ in range(3))))
    method = bound(FedAvg(), fleet, 1)
    schedule = scheduled(method, 20)
    assert schedule.client.tolist()[:4] == [0, 1, 1, 2]
    aggregator = linked(method, schedule, codec)
    times = evaluation_times(20, 5, float(schedule.time[-1]))
    recorder = Recorder(aggregator, 0, times, lambda model: torch.zeros(2))
    for event in PlainLoop(aggregator, quadratics(3)).events():
        recorder.observe(event)
    seen = recorder.rows()
    return [row.bits_up for row in seen], [row.bits_down for row in seen]


def test_bits_are_those_of_the_packed_messages() -> None:
    """Each client's first model comes in full, the others and all answers as they are packed."""
    full, packed = 32 * 4, message_bits(MinMax(bits=3), SIZES)
    up, down = rows_of(MinMax(bits=3))
    assert up == [0, 2 * packed, 4 * packed, 6 * packed, 8 * packed]
    downloads = [(2, 0), (3, 1), (3, 3), (3, 5), (3, 7)]  # a round begins at the horizon, too
    assert down == [first * full + later * packed for first, later in downloads]
    assert rows_of(None) == (
        [0, 2 * full, 4 * full, 6 * full, 8 * full],
        [(first + later) * full for first, later in downloads],
    )


def test_a_clients_first_model_comes_in_full() -> None:
    method = bound(FedAvg(), two_speeds(12, seed=1), 1)
    schedule = scheduled(method, 400, seed=1)
    aggregator = linked(method, schedule, MinMax(bits=2))
    first, later = 0, 0
    for event in PlainLoop(aggregator, quadratics(12)).events():
        for client in schedule.client[schedule.start_version == event.version].tolist():
            (start,) = event.clients.of(np.array([client]))
            if first_versions(schedule)[client] == event.version:
                assert torch.equal(start, event.server)
                first += 1
            else:
                assert not torch.equal(start, event.server)
                later += 1
    assert first == len(set(schedule.client.tolist()))
    assert later > 0
