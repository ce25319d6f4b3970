"""Packs: every run once, balanced by steps and by the speed of slots."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from favano.cluster.packs import Pack, PackedRun, Slot, make_packs, next_pack, slots_of

STEPS = st.lists(st.integers(0, 10_000), min_size=1, max_size=40)
CORES = st.lists(st.integers(1, 64), min_size=1, max_size=6)


def runs_of(steps: list[int]) -> list[PackedRun]:
    return [PackedRun(number // 3, number % 3, count) for number, count in enumerate(steps)]


def nodes(cores: list[int]) -> list[Slot]:
    return [Slot(f"node {number}", count) for number, count in enumerate(cores)]


@given(STEPS, CORES)
def test_every_run_is_in_one_pack(steps: list[int], cores: list[int]) -> None:
    packs = make_packs(runs_of(steps), nodes(cores))
    assert Counter(run for pack in packs for run in pack.runs) == Counter(runs_of(steps))
    assert all(pack.runs for pack in packs)
    assert len(packs) <= 2 * len(cores)


@given(STEPS, CORES)
def test_no_pack_is_longer_than_another_by_more_than_its_last_run(
    steps: list[int], cores: list[int]
) -> None:
    """In time: steps divided by speed. A shorter pack would have got the run."""
    packs = make_packs(runs_of(steps), nodes(cores))
    for pack in packs:
        last = min(run.steps for run in pack.runs)
        for other in packs:
            assert (pack.steps) / pack.speed <= (other.steps + last) / other.speed + 1e-9


def test_equal_slots_get_equal_work() -> None:
    packs = make_packs(runs_of([5] * 12), nodes([4, 4]))
    assert [pack.steps for pack in packs] == [15, 15, 15, 15]


def test_a_node_of_more_cores_gets_more() -> None:
    packs = make_packs(runs_of([1] * 50), nodes([16, 4]))
    by_speed = Counter[float]()
    for pack in packs:
        by_speed[pack.speed] += pack.steps
    assert by_speed == {16: 40, 4: 10}


def test_few_runs_go_to_the_fastest_node() -> None:
    (pack, other) = make_packs(runs_of([9, 9]), nodes([2, 32]))
    assert pack.speed == other.speed == 32


@pytest.mark.parametrize(
    ("device", "cores", "gpus", "slots"),
    [
        ("cpu", 8, 0, [Slot("a", 8)]),
        ("cpu", 8, 4, [Slot("a", 8)]),
        ("cpu", 0, 1, []),  # a head node that does not work
        ("cpu", 0.5, 0, []),
        ("cuda", 8, 0, []),
        ("cuda", 8, 2, [Slot("a", 4, 0), Slot("a", 4, 1)]),
        ("cuda:1", 1, 1, [Slot("a", 1, 0)]),
    ],
)
def test_a_slot_is_a_gpu_or_all_cores_of_a_node(
    device: str, cores: float, gpus: float, slots: list[Slot]
) -> None:
    assert slots_of("a", cores, gpus, device) == slots


def test_gpus_are_equally_fast_however_many_cores_are_beside_them() -> None:
    slots = [*slots_of("a", 64, 2, "cuda"), *slots_of("b", 2, 2, "cuda")]
    assert [pack.steps for pack in make_packs(runs_of([3] * 8), slots)] == [3] * 8


def test_a_free_slot_takes_the_largest_pack_of_its_speed_or_the_smallest_of_others() -> None:
    small, large, others, least = (
        Pack(speed, [PackedRun(0, 0, steps)]) for speed, steps in ((4, 1), (4, 5), (16, 9), (16, 7))
    )
    waiting = [small, others, large, least]
    assert next_pack(waiting, Slot("a", 4)) is large
    assert next_pack(waiting, Slot("b", 16)) is others
    assert next_pack(waiting, Slot("c", 2)) is small
    assert next_pack([others, least], Slot("a", 4)) is least


def test_a_pack_is_given_up_after_three_losses_in_a_row() -> None:
    pack = Pack(1.0)
    assert not pack.hopeless
    pack.losses = 2
    assert not pack.hopeless
    pack.losses = 3
    assert pack.hopeless
