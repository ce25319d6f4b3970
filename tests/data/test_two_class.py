from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from favano.data.two_class import class_blocks, free_classes, share_out
from favano.errors import BadInput
from favano.rng import Stream, permutation


@given(st.integers(2, 13), st.integers(1, 40), st.integers(0, 2**32))
def test_blocks_deal_two_distinct_classes_evenly(classes: int, clients: int, seed: int) -> None:
    pairs = class_blocks(classes, clients, seed)
    assert pairs.shape == (clients, 2)
    assert (pairs[:, 0] != pairs[:, 1]).all()
    holders = np.bincount(pairs.ravel(), minlength=classes)
    whole = 2 * clients % classes == 0
    assert int(holders.max() - holders.min()) <= (0 if whole else 1)


def test_within_a_block_no_class_comes_twice() -> None:
    pairs = class_blocks(10, 100, seed=3)
    for block in pairs.reshape(20, 10):
        assert sorted(block.tolist()) == list(range(10))
    assert pairs[:5].tolist() != pairs[5:10].tolist()


def test_fewer_clients_see_the_same_deal() -> None:
    assert class_blocks(10, 100, seed=3)[:7].tolist() == class_blocks(10, 7, seed=3).tolist()


def test_two_orders_of_an_odd_number_of_classes_are_distinct_where_they_meet() -> None:
    for seed in range(60):  # one in three seeds needs the exchange
        pairs = class_blocks(3, 3, seed)
        assert (pairs[:, 0] != pairs[:, 1]).all()
        assert np.bincount(pairs.ravel()).tolist() == [2, 2, 2]


def test_free_draws_are_distinct_within_a_client_and_uneven_between_classes() -> None:
    pairs = free_classes(10, 100, seed=0)
    assert (pairs[:, 0] != pairs[:, 1]).all()
    holders = np.bincount(pairs.ravel(), minlength=10)
    assert holders.sum() == 200
    assert holders.max() - holders.min() > 3


def test_share_out_by_hand() -> None:
    labels = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2])
    pairs = np.array([[0, 2], [1, 2], [0, 1]])
    parts = share_out(labels, pairs, 0, "two-class")
    kinds = [np.bincount(labels[part], minlength=3).tolist() for part in parts]
    assert kinds == [[2, 0, 2], [0, 1, 2], [1, 1, 0]]
    trimmed = share_out(labels, pairs, 0, "two-class", trim=True)
    kinds = [np.bincount(labels[part], minlength=3).tolist() for part in trimmed]
    assert kinds == [[1, 0, 1], [0, 1, 1], [1, 1, 0]]


def test_labels_need_not_start_at_zero() -> None:
    labels = np.repeat([4, 7], 5)
    parts = share_out(labels, np.array([[0, 1], [1, 0]]), 0, "two-class")
    assert [len(part) for part in parts] == [6, 4]
    assert sorted(np.concatenate(parts).tolist()) == list(range(10))


def test_more_holders_than_samples_is_refused() -> None:
    labels = np.array([0, 1, 1, 1])
    message = (
        r"^split=two-class: class 0 has 1 samples for 2 holders: "
        r"need fewer clients or another split$"
    )
    with pytest.raises(BadInput, match=message):
        share_out(labels, np.array([[0, 1], [1, 0]]), 0, "two-class")


def test_free_draws_are_each_clients_own() -> None:
    """100 draws among 45 pairs of classes: about 40 different ones, none held by many."""
    pairs = np.sort(free_classes(10, 100, seed=0), axis=1)
    _, times = np.unique(pairs, axis=0, return_counts=True)
    assert len(times) > 30
    assert times.max() < 12


def test_the_samples_of_a_class_are_shuffled_before_they_are_shared() -> None:
    """A data set may come in any order: no holder has a run of it, and the seed decides."""
    labels = np.repeat([0, 1], 300)
    pairs = np.array([[0, 1]] * 3)
    first, other = (share_out(labels, pairs, seed, "two-class") for seed in (0, 1))
    for part, another in zip(first, other, strict=True):
        assert part.tolist() != another.tolist()
        for low in (0, 300):
            own = part[(part >= low) & (part < low + 300)] - low
            assert len(own) == 100
            assert np.bincount(own // 100, minlength=3).min() > 15  # from each third of the class


def test_each_class_is_shuffled_by_a_stream_of_its_own() -> None:
    """Stream 1 + c for class c, since 0 deals the classes; its holders share the order evenly."""
    labels = np.repeat([0, 1, 3], 8)
    parts = share_out(labels, np.array([[0, 1], [0, 2], [1, 2], [0, 1]]), 5, "two-class")
    for place, name, holders in ((0, 0, [0, 1, 3]), (1, 1, [0, 2, 3]), (2, 3, [1, 2])):
        order = 8 * place + permutation(5, Stream.SPLIT, 8, client=1 + name)
        shares = np.array_split(order, len(holders))
        for client, share in zip(holders, shares, strict=True):
            own = parts[client][labels[parts[client]] == name]
            assert own.tolist() == sorted(share.tolist())


def test_even_blocks_are_the_orders_as_they_are() -> None:
    """Two orders meet between two clients, who may share a class; nothing is swapped."""
    met = 0
    for seed in range(20):
        orders = [permutation(seed, Stream.SPLIT, 4, client=0, index=block) for block in range(3)]
        assert class_blocks(4, 6, seed).ravel().tolist() == np.concatenate(orders).tolist()
        met += sum(int(before[-1] == two[0]) for before, two in pairwise(orders))
    assert met > 0
