from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from favano.data.batches import BatchStream, Order
from favano.errors import BadInput
from favano.rng import Stream, permutation

ORDERS: list[Order] = ["epoch", "continuous", "replacement"]
PARTS = [np.arange(0, 10), np.arange(10, 17), np.arange(17, 18)]


@given(st.integers(1, 40), st.integers(1, 50), st.integers(0, 2**63), st.integers(0, 30))
def test_each_epoch_visits_every_sample_once_and_keeps_the_short_batch(
    size: int, batch_size: int, seed: int, epoch: int
) -> None:
    part = np.arange(100, 100 + size)
    stream = BatchStream([part], batch_size, seed)
    batches = -(-size // batch_size)
    drawn = [stream.indices(0, epoch * batches + place) for place in range(batches)]
    assert sorted(np.concatenate(drawn).tolist()) == part.tolist()
    assert [len(batch) for batch in drawn[:-1]] == [batch_size] * (batches - 1)
    assert len(drawn[-1]) == size - (batches - 1) * batch_size


@given(st.integers(1, 20), st.integers(1, 50), st.integers(0, 2**63))
def test_continuous_batches_are_full_and_join_whole_epochs(
    size: int, batch_size: int, seed: int
) -> None:
    stream = BatchStream([np.arange(size)], batch_size, seed, order="continuous")
    drawn = [stream.indices(0, step) for step in range(2 * size)]  # 2 * batch_size epochs
    assert {len(batch) for batch in drawn} == {batch_size}
    epochs = np.concatenate(drawn).reshape(2 * batch_size, size)
    for number, epoch in enumerate(epochs):
        assert epoch.tolist() == stream.epoch_order(0, number).tolist()
        assert sorted(epoch.tolist()) == list(range(size))


def test_epochs_differ_and_clients_differ() -> None:
    stream = BatchStream([np.arange(50), np.arange(50)], 50, seed=0)
    first, second, other = stream.indices(0, 0), stream.indices(0, 1), stream.indices(1, 0)
    assert not np.array_equal(first, second)
    assert not np.array_equal(first, other)


def test_the_order_is_the_documented_draw() -> None:
    stream = BatchStream(PARTS, 4, seed=9, streams=np.array([5, 6, 7]))
    expected = PARTS[1][permutation(9, Stream.BATCHES, 7, client=6, index=3)]
    assert stream.indices(1, 6).tolist() == expected[:4].tolist()
    assert stream.indices(1, 7).tolist() == expected[4:].tolist()


def test_replacement_draws_evenly_and_independently_of_the_part_size() -> None:
    stream = BatchStream([np.arange(5, 15)], 100, seed=0, order="replacement")
    drawn = np.concatenate([stream.indices(0, step) for step in range(100)])
    counts = np.bincount(drawn, minlength=15)
    assert counts[:5].sum() == 0
    assert (abs(counts[5:] - 1000) < 5 * 30).all()  # five standard deviations


@pytest.mark.parametrize("order", ORDERS)
def test_a_batch_does_not_depend_on_what_was_read_before(order: Order) -> None:
    forward = BatchStream(PARTS, 4, seed=1, order=order)
    visits = [(client, step) for client in range(3) for step in range(12)]
    expected = {used_by: forward.indices(*used_by).tolist() for used_by in visits}
    backward = BatchStream(PARTS, 4, seed=1, order=order)
    for visit in reversed(visits):
        assert backward.indices(*visit).tolist() == expected[visit]


@pytest.mark.parametrize("order", ORDERS)
def test_batches_read_together_are_those_read_one_by_one(order: Order) -> None:
    stream = BatchStream(PARTS, 4, seed=1, order=order)
    for client in range(3):
        for first, steps in [(0, 1), (0, 12), (2, 3), (5, 7)]:
            single = [stream.indices(client, first + step) for step in range(steps)]
            together = stream.indices(client, first, steps)
            assert together.tolist() == np.concatenate(single).tolist()


@pytest.mark.parametrize("order", ORDERS)
def test_relabelled_clients_keep_their_batches(order: Order) -> None:
    relabelled = [2, 0, 1]  # new client i is old client relabelled[i]
    old = BatchStream(PARTS, 4, seed=1, order=order)
    parts = [PARTS[client] for client in relabelled]
    new = BatchStream(parts, 4, seed=1, streams=np.array(relabelled), order=order)
    for client, former in enumerate(relabelled):
        for step in range(9):
            assert np.array_equal(new.indices(client, step), old.indices(former, step))


@pytest.mark.parametrize("order", ORDERS)
def test_length_is_that_of_the_batch(order: Order) -> None:
    stream = BatchStream(PARTS, 4, seed=1, order=order)
    for client in range(3):
        for step in range(9):
            assert stream.length(client, step) == len(stream.indices(client, step))


def test_one_order_per_client_is_kept() -> None:
    stream = BatchStream(PARTS, 4, seed=1)
    assert stream.epoch_order(0, 2) is stream.epoch_order(0, 2)
    kept = stream.epoch_order(0, 2)
    stream.epoch_order(0, 3)
    assert stream.epoch_order(0, 2) is not kept


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(BadInput, match=r"^batch_size=0: need 1 or more$"):
        BatchStream(PARTS, 0, seed=0)
    with pytest.raises(BadInput, match=r"^streams=2: need one per client \(3\)$"):
        BatchStream(PARTS, 4, seed=0, streams=np.array([0, 1]))
    message = r"^parts=\[1\]: clients without samples: need at least one sample each$"
    with pytest.raises(BadInput, match=message):
        BatchStream([np.arange(3), np.arange(0)], 4, seed=0)
    unknown: Order = "epochs"  # type: ignore[assignment]
    message = r"^order=epochs: need one of epoch, continuous, replacement$"
    with pytest.raises(BadInput, match=message):
        BatchStream(PARTS, 4, seed=0, order=unknown)


@pytest.mark.parametrize("order", ORDERS)
def test_shares_of_lengths_are_counted_batches(order: Order) -> None:
    stream = BatchStream(PARTS, 4, seed=0, order=order)
    epoch = 6  # steps after which every client of PARTS is through whole epochs
    counted = [stream.length(client, step) for client in range(3) for step in range(epoch)]
    shares = stream.lengths()
    assert shares == pytest.approx({n: counted.count(n) / len(counted) for n in set(counted)})


def test_full_batches_alone_have_one_length() -> None:
    """Parts of 6 and 7 samples in batches of 3: half of the clients have a short batch in three."""
    assert BatchStream([np.arange(6)], 3, 0).lengths() == {3: 1.0}
    both = BatchStream([np.arange(6), np.arange(7)], 3, 0).lengths()
    assert both == pytest.approx({3: 0.5 + 0.5 * 2 / 3, 1: 0.5 / 3})
