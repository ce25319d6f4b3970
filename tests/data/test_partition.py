from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from favano.data.partition import SPLITS, Traits, check_parts, check_split, partition, split
from favano.errors import BadInput
from favano.rng import Stream, permutation
from favano.types import Ints

MNIST_COUNTS = (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949)
ALL = ["iid", "two-class", "two-class-free", "two-class-trim", "shards:3", "dirichlet:1.5"]


def shuffled(counts: tuple[int, ...]) -> Ints:
    labels = np.repeat(np.arange(len(counts)), counts)
    return labels[permutation(0, Stream.HOLDOUT, len(labels))]


def assert_disjoint(parts: list[Ints]) -> None:
    together = np.concatenate(parts)
    assert len(np.unique(together)) == len(together)


@pytest.mark.parametrize("how", ALL)
def test_every_split_is_disjoint_sorted_and_decided_by_the_seed(how: str) -> None:
    labels = shuffled((200,) * 10)
    first, again, other = (split(labels, 15, how, seed) for seed in (4, 4, 5))
    assert len(first) == 15
    assert_disjoint(first)
    check_parts(first, labels, 10, how=how, allow_missing_classes=how == "two-class-free")
    assert all((np.diff(part) > 0).all() for part in first)
    assert all(part.dtype == np.int64 for part in first)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


def test_runs_share_a_split() -> None:
    """A table has many runs per split; each split is dealt once."""
    traits = Traits(2000, shuffled((200,) * 10), 10)
    first = partition(traits, 15, "two-class", 4)
    assert partition(traits, 15, "two-class", 4) is first
    others = partition(traits, 15, "two-class", 5), partition(traits, 14, "two-class", 4)
    assert [len(parts) for parts in others] == [15, 14]
    assert not np.array_equal(others[0][0], first[0])
    assert not np.array_equal(partition(traits, 15, "iid", 4)[0], first[0])


@pytest.mark.parametrize("how", ["iid", "two-class", "shards:2", "dirichlet:1"])
def test_every_sample_is_used(how: str) -> None:
    labels = shuffled((200,) * 10)
    parts = split(labels, 15, how, 0)
    assert sorted(np.concatenate(parts).tolist()) == list(range(2000))


def test_iid_parts_differ_by_one_sample_at_most() -> None:
    parts = split(shuffled((50, 53)), 4, "iid", 0)
    assert [len(part) for part in parts] == [26, 26, 26, 25]


def test_two_class_has_the_papers_sizes_on_mnist() -> None:
    labels = shuffled(MNIST_COUNTS)
    parts = split(labels, 100, "two-class", 0)
    assert all(len(np.unique(labels[part])) == 2 for part in parts)
    holders = np.zeros(10, dtype=int)
    for part in parts:
        holders[np.unique(labels[part])] += 1
    assert holders.tolist() == [20] * 10
    sizes = [len(part) for part in parts]
    assert min(sizes) >= 563
    assert max(sizes) <= 652
    assert sum(sizes) == 60000


def test_two_class_is_exact_on_balanced_labels() -> None:
    labels = shuffled((5000,) * 10)
    parts = split(labels, 100, "two-class", 7)
    assert {len(part) for part in parts} == {500}
    assert {tuple(np.unique(np.bincount(labels[part]))) for part in parts} <= {(0, 250), (250,)}


def test_two_class_trim_is_exact_on_mnist() -> None:
    labels = shuffled(MNIST_COUNTS)
    parts = split(labels, 100, "two-class-trim", 0)
    assert {len(part) for part in parts} == {2 * (5421 // 20)}
    assert all(len(np.unique(labels[part])) == 2 for part in parts)


def test_two_class_free_holds_two_classes() -> None:
    labels = shuffled((200,) * 10)
    parts = split(labels, 30, "two-class-free", 0)
    assert all(len(np.unique(labels[part])) == 2 for part in parts)
    assert len({len(part) for part in parts}) > 2


@given(
    counts=st.lists(st.integers(60, 90), min_size=2, max_size=9).map(tuple),
    clients=st.integers(1, 30),
    seed=st.integers(0, 1000),
)
def test_two_class_for_any_number_of_classes(
    counts: tuple[int, ...], clients: int, seed: int
) -> None:
    labels = shuffled(counts)
    for how in ("two-class", "two-class-trim", "two-class-free"):
        parts = split(labels, clients, how, seed)
        assert_disjoint(parts)
        assert all(len(np.unique(labels[part])) == 2 for part in parts)
        if how == "two-class-trim":
            assert len({len(part) for part in parts}) == 1


def test_shards_are_runs_of_the_sorted_labels() -> None:
    labels = shuffled((100,) * 10)
    parts = split(labels, 20, "shards:2", 0)
    assert {len(part) for part in parts} == {50}
    assert max(len(np.unique(labels[part])) for part in parts) == 2
    ranks = np.empty(1000, dtype=np.int64)
    ranks[np.argsort(labels, kind="stable")] = np.arange(1000)
    for part in parts:
        assert np.bincount(ranks[part] // 25, minlength=40).tolist().count(25) == 2


@pytest.mark.parametrize(
    ("how", "rule"),
    [
        (
            "two-clas",
            f"need one of {', '.join(SPLITS)}",
        ),
        (
            "iid:3",
            f"need one of {', '.join(SPLITS)}",
        ),
        ("shards:0", "need shards:N with N a whole number from 1"),
        ("shards:2.5", "need shards:N with N a whole number from 1"),
        ("shards:", "need shards:N with N a whole number from 1"),
        ("dirichlet:0", "need dirichlet:A with A a number > 0"),
        ("dirichlet:-1", "need dirichlet:A with A a number > 0"),
        ("dirichlet:nan", "need dirichlet:A with A a number > 0"),
        ("dirichlet:much", "need dirichlet:A with A a number > 0"),
    ],
)
def test_a_split_that_makes_no_sense_is_refused(how: str, rule: str) -> None:
    with pytest.raises(BadInput) as caught:
        check_split(how)
    assert str(caught.value) == f"split={how}: {rule}"


@pytest.mark.parametrize("how", ALL)
def test_good_splits_pass(how: str) -> None:
    check_split(how)


def test_bad_numbers_are_refused() -> None:
    with pytest.raises(BadInput, match=r"^clients=0: need 1 or more$"):
        split(np.array([0, 1]), 0, "iid", 0)
    with pytest.raises(
        BadInput, match=r"^split=two-class: the labels have 1 class: need 2 or more$"
    ):
        split(np.array([1, 1]), 1, "two-class", 0)
    message = r"^split=shards:2: 4 shards of 3 samples: need at most one shard per sample$"
    with pytest.raises(BadInput, match=message):
        split(np.array([0, 1, 1]), 2, "shards:2", 0)


def refusal(parts: list[list[int]], labels: list[int], how: str, classes: int = 3) -> str:
    arrays = [np.array(part, dtype=np.int64) for part in parts]
    with pytest.raises(BadInput) as caught:
        check_parts(arrays, np.array(labels), classes, how=how)
    return str(caught.value)


def test_an_empty_client_is_refused_by_name() -> None:
    assert refusal([[0], [], [1]], [0, 1], "iid") == (
        "split=iid: client 1 has no samples: need fewer clients or another split"
    )
    parts = split(np.array([0, 1, 2]), 4, "iid", 0)
    with pytest.raises(BadInput, match="client 3 has no samples"):
        check_parts(parts, np.array([0, 1, 2]), 3)


def test_a_sample_with_two_owners_is_refused() -> None:
    message = refusal([[0, 2], [1, 2]], [0, 1, 2], "given")
    assert message == "split=given: sample 2 has 2 owners: need disjoint parts"


def test_a_sample_that_does_not_exist_is_refused() -> None:
    message = refusal([[0], [3]], [0, 1, 2], "given")
    assert message == "split=given: client 1 has samples outside 0..2"


def test_a_class_without_holder_is_refused_by_name() -> None:
    labels = shuffled((20,) * 10)
    parts = split(labels, 4, "two-class", 0)
    missing = min(set(range(10)) - set(labels[np.concatenate(parts)].tolist()))
    with pytest.raises(BadInput) as caught:
        check_parts(parts, labels, 10, how="two-class")
    assert str(caught.value) == (
        f"split=two-class: class {missing} has no holder: "
        "need clients >= classes / 2 (5) or another split"
    )
    check_parts(parts, labels, 10, how="two-class", allow_missing_classes=True)
    assert refusal([[0, 1]], [0, 1, 2], "two-class-free") == (
        "split=two-class-free: class 2 has no holder: "
        "need more clients, another seed or another split"
    )


def test_five_clients_hold_ten_classes() -> None:
    labels = shuffled((20,) * 10)
    check_parts(split(labels, 5, "two-class", 0), labels, 10, how="two-class")


def test_a_class_without_samples_is_nobodys_fault() -> None:
    """Letters of an alphabet that a text does not use."""
    labels = np.array([0, 2, 2, 0])
    check_parts([np.array([0, 1]), np.array([2])], labels, 5)
    with pytest.raises(BadInput, match="class 2 has no holder"):
        check_parts([np.array([0]), np.array([3])], labels, 5)


def test_a_shard_may_be_one_sample() -> None:
    parts = split(np.arange(6) % 2, 3, "shards:2", seed=0)
    assert sorted(np.concatenate(parts).tolist()) == list(range(6))
    with pytest.raises(BadInput, match="8 shards of 6 samples: need at most one shard per sample"):
        split(np.arange(6) % 2, 4, "shards:2", seed=0)
