"""Single messages on the link: what is read, which draws are used, and what is counted."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from favano.aggregation import Link
from favano.aggregation import link as link_module
from favano.aggregation.link import first_versions, message_numbers
from favano.policies import Buffered, Polling
from favano.quantisation import Codec, Lattice, Qsgd, message_bits
from favano.schedule import Schedule, plan
from favano.timing import two_speeds
from tests.aggregation.test_link import COARSE, FINE, SEED, SIZES, label
from tests.problems import close, start_model


def link_of(codec: Codec, schedule: Schedule) -> Link:
    return Link(codec, SIZES, schedule, seed=SEED, streams=np.arange(schedule.clients), plain=2)


POLICY = Polling(selected=3, local_steps=5)
SCHEDULE = plan(POLICY, two_speeds(6), horizon=70, seed=0)


@pytest.mark.parametrize("codec", COARSE, ids=label)
def test_buffers_and_counters_travel_as_they_are(codec: Codec) -> None:
    generator = torch.Generator().manual_seed(1)
    start, end = torch.randn(2, 3, 7, generator=generator)
    server = torch.randn(7, generator=generator)
    before = start.clone(), end.clone(), server.clone()
    link, jobs = link_of(codec, SCHEDULE), np.arange(3)
    assert link.bits == message_bits(codec, SIZES) + 2 * 32
    for received, sent in (
        (link.up(jobs, start, end, server), end),
        (link.reply(jobs, 3, server, start, end), server.expand_as(end)),
    ):
        assert torch.equal(received[:, 4:], sent[:, 4:])
        assert not torch.equal(received[:, :4], sent[:, :4])
        assert received.dtype == sent.dtype
    assert all(torch.equal(a, b) for a, b in zip(before, (start, end, server), strict=True))


def test_who_reads_the_same_shares_the_memory() -> None:
    link = link_of(Lattice(bits=8, scale=0.1), SCHEDULE)
    near, other, far = torch.zeros(4), torch.ones(4), torch.full((4,), 100.0)
    read = link.hand_out(2, torch.full((4,), 0.52), [4, 1, 0, 5], [near, other, near, far])
    assert read[4] is read[0]
    assert read[1] is read[0]
    assert torch.allclose(read[0], torch.full((4,), 0.5))
    assert not torch.equal(read[5], read[0])
    assert link.wrapped == 1
    assert link.hand_out(3, near, [], []) == {}


def test_a_message_read_wrongly_counts_for_each_who_reads_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where a few messages are coded at a time."""
    near, far = torch.zeros(4), torch.full((4,), 100.0)
    for at_once in (1 << 24, 4):
        monkeypatch.setattr(link_module, "_NUMBERS_AT_ONCE", at_once)
        link = link_of(Lattice(bits=8, scale=0.1), SCHEDULE)
        link.hand_out(2, near, [0, 1, 2, 3], [near, far, far, far])
        assert link.wrapped == 3
        end = torch.stack([near, far, far])
        link.up(np.arange(3), end, end, near)
        assert link.wrapped == 5


@pytest.mark.parametrize("codec", COARSE, ids=label)
def test_messages_coded_a_few_at_a_time_are_the_same(
    codec: Codec, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, end = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(2))
    jobs, server = np.arange(3), torch.zeros(4)
    whole = link_of(codec, SCHEDULE).up(jobs, start, end, server)
    monkeypatch.setattr(link_module, "_NUMBERS_AT_ONCE", 4)
    assert torch.equal(link_of(codec, SCHEDULE).up(jobs, start, end, server), whole)


def test_after_a_hand_out_the_last_reply_is_forgotten() -> None:
    """A client that kept a model of its own and lost it: both sides know what it was handed."""
    job, generator = np.array([0]), torch.Generator().manual_seed(1)
    start, end, server, handed = torch.randn(4, 1, 4, generator=generator)
    client = int(SCHEDULE.client[0])
    never, once, again = (link_of(Qsgd(bits=3), SCHEDULE) for _ in range(3))
    for link in (once, again):
        link.reply(job, 3, server[0], start, end)
    again.hand_out(4, server[0], [client], [handed[0]])
    known = never.up(job, start, end, server[0])
    assert torch.equal(again.up(job, start, end, server[0]), known)
    assert not torch.equal(once.up(job, start, end, server[0]), known)


def test_a_client_without_progress_is_exact_where_changes_are_encoded() -> None:
    link = link_of(Qsgd(bits=2), SCHEDULE)
    start = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    assert torch.equal(link.up(np.arange(3), start, start, torch.zeros(4)), start)


def test_messages_are_numbered_by_client() -> None:
    number = message_numbers(SCHEDULE)
    for client in range(6):
        mine = SCHEDULE.client == client
        in_order = number[mine][np.argsort(SCHEDULE.start_version[mine], kind="stable")]
        assert in_order.tolist() == list(range(int(mine.sum())))
    assert first_versions(SCHEDULE).tolist() == [-1] * 6


def test_work_thrown_away_has_its_place_among_the_messages_of_its_client() -> None:
    """In the schedule it stands last."""
    policy = Buffered(buffer=1, local_steps=1, hand_out="flush", latency="none", max_staleness=3)
    schedule = plan(policy, two_speeds(6), horizon=70, seed=0)
    number = message_numbers(schedule)
    assert schedule.wasted_steps.sum() > 0
    for client in range(6):
        mine = schedule.client == client
        in_order = number[mine][np.argsort(schedule.begin[mine])]
        assert in_order.tolist() == list(range(int(mine.sum())))


@pytest.mark.gpu
@pytest.mark.parametrize("codec", [*COARSE, *FINE], ids=label)
def test_a_device_draws_and_reads_as_the_host_does(codec: Codec) -> None:
    generator = torch.Generator().manual_seed(1)
    start, end = torch.randn(2, 3, 4, generator=generator, dtype=torch.float64)
    server, jobs = start_model(), np.arange(3)
    host = link_of(codec, SCHEDULE).up(jobs, start, end, server)
    device = link_of(codec, SCHEDULE).up(jobs, start.cuda(), end.cuda(), server.cuda())
    assert close(device.cpu(), host)
