"""What a client remembers: few jobs of one run, whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

pytest.importorskip("flwr")

from flwr.app import RecordDict

from favano.errors import BadInput
from favano.flower.memory import FileStore, NodeMemory, NoStore, Remembered, StateStore, Store
from favano.flower.payload import fingerprint


def job(number: float) -> Remembered:
    """What might be kept of a job."""
    start = torch.full((3,), float(number))
    return Remembered(start, -start[:2], int(10 * number))


def numbers(memory: NodeMemory) -> list[int]:
    return list(memory.jobs)


def test_the_job_to_go_on_after_and_the_newest_two_are_kept() -> None:
    memory = NodeMemory()
    for number in (4, 6, 9):
        memory = memory.with_job("run", number, job(number), after=4)
    assert numbers(memory) == [4, 6, 9]
    assert numbers(memory.with_job("run", 11, job(11), after=4)) == [4, 9, 11]
    assert numbers(memory.with_job("run", 11, job(11), after=9)) == [9, 11]
    assert numbers(memory.with_job("run", 11, job(11), after=5)) == [9, 11]  # not known
    again = memory.with_job("run", 9, job(2), after=6)
    assert numbers(again) == [6, 9]
    assert again.jobs[9].steps == 20


def test_another_run_begins_anew() -> None:
    memory = NodeMemory().with_job("one", 4, job(4)).with_job("one", 5, job(5), after=4)
    other = memory.with_job("two", 6, job(6), after=5)
    assert (other.run, numbers(other)) == ("two", [6])
    assert memory.of("one", 5) is memory.jobs[5]
    assert memory.of("two", 5) is None
    assert memory.of("one", 7) is None


def test_a_start_model_is_found_by_its_bits() -> None:
    memory = NodeMemory().with_job("one", 4, job(4)).with_job("one", 5, job(5), after=4)
    start = memory.start("one", fingerprint(torch.full((3,), 5.0)))
    assert start is memory.jobs[5].start
    assert memory.start("one", fingerprint(torch.full((3,), 6.0))) is None
    assert memory.start("two", fingerprint(torch.full((3,), 5.0))) is None


def stores(folder: Path) -> list[Store]:
    return [FileStore(folder / "new" / "memory.bin"), StateStore(RecordDict()), NoStore()]


@pytest.mark.parametrize("place", range(3))
def test_it_outlasts_a_store_in_the_order_of_its_jobs(place: int, tmp_path: Path) -> None:
    store = stores(tmp_path)[place]
    assert NodeMemory.from_bytes(store.read()) == NodeMemory()
    memory = NodeMemory("run", {number: job(number) for number in (12, 3, 101)})
    store.write(b"something longer than it")
    store.write(memory.to_bytes())
    again = NodeMemory.from_bytes(store.read())
    assert (again.run, numbers(again)) == ("run", [12, 3, 101])
    for number, kept in memory.jobs.items():
        assert torch.equal(again.jobs[number].start, kept.start)
        assert torch.equal(again.jobs[number].vectors, kept.vectors)
        assert again.jobs[number].steps == kept.steps


def test_damaged_bytes_are_refused() -> None:
    data = NodeMemory("run", {1: job(1)}).to_bytes()
    with pytest.raises(BadInput, match=r"memory=\d+ bytes: cannot be read: .*begins anew"):
        NodeMemory.from_bytes(data[:-3])
