"""Draws are functions of (seed, stream, client, index), and look random."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from favano.quantisation.noise import keep_mask, uniform_noise
from favano.rng import (
    GOLDEN,
    SHORT_MULTIPLIERS,
    Stream,
    bits,
    mix_array,
    mix_integer,
    mix_tensor,
    normal,
    origin,
    permutation,
    shifted,
    signed,
    torch_seed,
    uniform,
    word,
)
from favano.training.device_draws import (
    device_bits,
    device_permutations,
    device_uniform,
    on_device,
)

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
    for later in (drawn[1:, :], drawn[:, 1:]):
        base = drawn[: later.shape[0], : later.shape[1]]
        assert abs(np.corrcoef(base.ravel(), later.ravel())[0, 1]) < 0.01
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
    assert int(bits(0, Stream.SELECTION, 0, 0)) == FROZEN[0]
    assert int(bits(7, Stream.DURATIONS, 3, 11)) == FROZEN[1]


FROZEN = (107726178388308243, 9866913989112360137)


words = st.integers(0, 2**64 - 1)


def mixed_by_hand(z: int) -> int:
    """SplitMix64's finaliser as published, in whole numbers."""
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


@given(z=st.lists(words, min_size=1, max_size=5))
def test_arrays_integers_and_tensors_are_mixed_alike(z: list[int]) -> None:
    expected = [mixed_by_hand(number) for number in z]
    array, tensor = np.array(z, dtype=np.uint64), torch.tensor([signed(number) for number in z])
    before = array.copy(), tensor.clone()
    assert [mix_integer(number) for number in z] == expected
    assert mix_array(array).tolist() == expected
    assert mix_tensor(tensor).tolist() == [signed(number) for number in expected]
    assert np.array_equal(array, before[0])  # nothing is overwritten
    assert torch.equal(tensor, before[1])


def test_the_published_sequence() -> None:
    """The first numbers of SplitMix64 from seed 1234567, as other implementations give them."""
    begin = 1234567
    sequence = [mix_integer((begin + step * GOLDEN) % 2**64) for step in range(1, 4)]
    assert sequence == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@given(seed=numbers, client=numbers, index=st.integers(0, 2**40))
def test_draws_of_host_and_device_agree(seed: int, client: int, index: int) -> None:
    expected = int(bits(seed, Stream.LUQ, client, index))
    assert word(seed, Stream.LUQ, client, index) == signed(expected)
    origins = on_device(origin(seed, Stream.LUQ, [client]), torch.device("cpu"))
    place = torch.tensor([index])
    assert device_bits(origins, place).tolist() == [signed(expected)]
    drawn = float(uniform(seed, Stream.LUQ, client, index))
    assert device_uniform(origins, place).tolist() == [drawn]


def test_permutations_of_host_and_device_agree() -> None:
    clients, epochs, sizes = [0, 5, 2**20], [0, 3, 2], [4, 9, 1]
    origins = on_device(origin(3, Stream.BATCHES, clients), torch.device("cpu"))
    orders = device_permutations(origins, torch.tensor(epochs), torch.tensor(sizes), longest=9)
    for row, client, epoch, size in zip(orders, clients, epochs, sizes, strict=True):
        expected = permutation(3, Stream.BATCHES, size, client, epoch)
        assert row[:size].tolist() == expected.tolist()


@given(key=words, place=st.integers(0, 2**40))
def test_noise_is_that_of_whole_numbers(key: int, place: int) -> None:
    """23 bits per element: 64 mixed bits of key and place, then a mixer of 32 bits."""
    mixed = mixed_by_hand((key + (place + 1) * GOLDEN) % 2**64)
    first, second = SHORT_MULTIPLIERS
    expected = []
    for element in range(4):
        z = (element * (GOLDEN >> 32) + mixed) % 2**32
        z = ((z ^ (z >> 16)) * first ^ (mixed >> 32)) % 2**32
        z = (z ^ (z >> 15)) * second % 2**32
        expected.append((z >> 9) / 2**23)
    tensor = torch.tensor(signed(key))
    assert uniform_noise(tensor, place, torch.empty(4)).tolist() == expected
    assert keep_mask(tensor, place, (4,), 0.5).tolist() == [number >= 0.5 for number in expected]


@given(word=words, places=st.integers(1, 63))
def test_shifts_fill_with_zeros(word: int, places: int) -> None:
    assert int(shifted(torch.tensor(signed(word)), places)) == word >> places
    low = torch.tensor(signed(word, width=32), dtype=torch.int32)
    assert int(shifted(low, 1 + places % 31, 32)) == (word % 2**32) >> (1 + places % 31)
