"""Draws are functions of (seed, stream, client, index), and look random."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from favano.rng import Stream, bits, normal, permutation, torch_seed, uniform

numbers = st.integers(0, 2**31)


@given(seed=numbers, clients=st.lists(numbers, min_size=1, max_size=5), index=numbers)
def test_vectorised_draws_equal_single_ones(seed: int, clients: list[int], index: int) -> None:
    together = bits(seed, Stream.DURATIONS, np.array(clients), index)
    alone = [int(bits(seed, Stream.DURATIONS, client, index)) for client in clients]
    assert together.tolist() == alone


def test_draws_are_uniform_and_uncorrelated() -> None:
    drawn = uniform(1, Stream.DURATIONS, np.arange(2000)[:, None], np.arange(100))
    assert 0 < drawn.min() < drawn.max() < 1
    assert stats.kstest(drawn.ravel(), "uniform").pvalue > 1e-3
    for shifted in (drawn[1:, :], drawn[:, 1:]):
        base = drawn[: shifted.shape[0], : shifted.shape[1]]
        assert abs(np.corrcoef(base.ravel(), shifted.ravel())[0, 1]) < 0.01
    other = uniform(2, Stream.DURATIONS, np.arange(2000)[:, None], np.arange(100))
    assert abs(np.corrcoef(drawn.ravel(), other.ravel())[0, 1]) < 0.01


def test_normal_draws() -> None:
    drawn = normal(3, Stream.DURATIONS, np.arange(100_000))
    assert stats.kstest(drawn, "norm").pvalue > 1e-3


def test_streams_and_seeds_differ() -> None:
    seen = {int(bits(seed, stream)) for seed in range(50) for stream in Stream}
    assert len(seen) == 50 * len(Stream)
    assert len({torch_seed(seed) for seed in range(100)}) == 100


@given(size=st.integers(0, 50), client=numbers, index=st.integers(0, 1000))
def test_permutations(size: int, client: int, index: int) -> None:
    drawn = permutation(0, Stream.BATCHES, size, client, index)
    assert sorted(drawn.tolist()) == list(range(size))
    again = permutation(0, Stream.BATCHES, size, client, index)
    assert drawn.tolist() == again.tolist()


def test_every_order_is_equally_likely() -> None:
    orders = [tuple(permutation(0, Stream.SPLIT, 3, client).tolist()) for client in range(6000)]
    counted = [orders.count(order) for order in set(orders)]
    assert len(counted) == 6
    assert stats.chisquare(counted).pvalue > 1e-3


def test_golden_draws() -> None:
    """Results of earlier versions stay reproducible: these numbers must never change."""
    assert int(bits(0, Stream.SELECTION, 0, 0)) == GOLDEN[0]
    assert int(bits(7, Stream.DURATIONS, 3, 11)) == GOLDEN[1]


GOLDEN = (107726178388308243, 9866913989112360137)
