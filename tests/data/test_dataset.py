import numpy as np
import pytest

from favano.data.dataset import Dataset, Rows, hold_out, take_fraction
from favano.data.preprocessing import Preprocessing
from favano.errors import BadInput


def numbered(train: int, test: int, *, classes: int = 3, channels: int = 1) -> Dataset:
    """Every image carries its own number."""
    images = np.arange(train + test, dtype=np.uint8)[:, None, None, None]
    images = np.broadcast_to(images, (train + test, channels, 2, 2))
    labels = np.arange(train + test) % classes
    return Dataset(
        name="numbered",
        train=Rows(images[:train], labels[:train]),
        test=Rows(images[train:], labels[train:]),
        classes=classes,
        preprocessing=Preprocessing(scale=255.0),
    )


def test_input_shape_is_that_of_one_image() -> None:
    assert numbered(6, 3, channels=3).input_shape == (3, 2, 2)


def test_labels_beyond_the_classes_are_refused() -> None:
    images, labels = np.zeros((2, 1, 2, 2), np.uint8), np.array([0, 3])
    message = r"^dataset=mine: train labels run from 0 to 3: need 0\.\.2$"
    with pytest.raises(BadInput, match=message):
        Dataset("mine", Rows(images, labels), Rows(images, labels), 3, Preprocessing(scale=1.0))


def test_unequal_lengths_are_refused() -> None:
    images, labels = np.zeros((2, 1, 2, 2), np.uint8), np.array([0])
    message = r"^dataset=mine: 2 train samples and 1 labels: need equally many, not 0$"
    with pytest.raises(BadInput, match=message):
        Dataset("mine", Rows(images, labels), Rows(images, labels), 3, Preprocessing(scale=1.0))


def test_preprocessing_for_other_channels_is_refused() -> None:
    images, labels = np.zeros((1, 3, 2, 2), np.uint8), np.array([0])
    grey = Preprocessing(scale=1.0, mean=(0.1,), std=(0.3,))
    with pytest.raises(BadInput, match="images of 3 channels, preprocessing for 1"):
        Dataset("mine", Rows(images, labels), Rows(images, labels), 3, grey)


def test_hold_out_moves_training_images_and_forgets_the_test_set() -> None:
    dataset = numbered(20, 5)
    held = hold_out(dataset, 8, seed=1)
    train, test = held.train.inputs[:, 0, 0, 0], held.test.inputs[:, 0, 0, 0]
    assert (len(train), len(test)) == (12, 8)
    assert sorted([*train.tolist(), *test.tolist()]) == list(range(20))
    assert held.train.labels.tolist() == (train % 3).tolist()
    assert held.test.labels.tolist() == (test % 3).tolist()


def test_hold_out_follows_the_seed_alone() -> None:
    dataset = numbered(20, 5)
    first, again, other = (hold_out(dataset, 8, seed).test.inputs for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("count", [0, 20, -1])
def test_hold_out_must_leave_something(count: int) -> None:
    message = rf"^holdout={count}: need 1\.\.19, or 0 for the official test set$"
    with pytest.raises(BadInput, match=message):
        hold_out(numbered(20, 5), count, seed=0)


def test_a_fraction_keeps_every_class_and_follows_the_seed() -> None:
    dataset = numbered(60, 9)
    small = take_fraction(dataset, 0.25, seed=1)
    train = small.train.inputs[:, 0, 0, 0]
    assert np.bincount(small.train.labels).tolist() == [5, 5, 5]
    assert np.bincount(small.test.labels).tolist() == [1, 1, 1]
    assert small.train.labels.tolist() == (train % 3).tolist()
    assert len(set(train.tolist())) == 15
    assert np.bincount(take_fraction(dataset, 0.01, seed=1).test.labels).tolist() == [1, 1, 1]
    again, other = (take_fraction(dataset, 0.25, seed).train.inputs for seed in (1, 2))
    assert np.array_equal(small.train.inputs, again)
    assert not np.array_equal(small.train.inputs, other)


@pytest.mark.parametrize("fraction", [0.0, 1.5, -0.1])
def test_a_fraction_must_be_one(fraction: float) -> None:
    with pytest.raises(BadInput, match=rf"^data_fraction={fraction}: need a number > 0, 1 at most"):
        take_fraction(numbered(6, 3), fraction, seed=0)


def test_a_fraction_of_train_and_test_are_drawn_apart_with_their_owners() -> None:
    """Equal parts have other samples; who owns a sample follows it."""
    labels, owners = np.zeros(100, dtype=np.int64), {"town": np.arange(100)}
    images = np.broadcast_to(np.arange(100, dtype=np.uint8)[:, None, None, None], (100, 1, 2, 2))
    rows = Rows(images, labels, owners)
    taken = take_fraction(Dataset("two", rows, rows, 1, Preprocessing(scale=1.0)), 0.3, 4)
    train, test = (
        {int(image) for image in part.inputs[:, 0, 0, 0]} for part in (taken.train, taken.test)
    )
    assert len(train) == len(test) == 30
    assert train != test
    for part in (taken.train, taken.test):
        assert part.owners["town"].tolist() == part.inputs[:, 0, 0, 0].tolist()


def test_the_largest_class_and_the_number_of_owners_are_checked() -> None:
    images, labels = np.zeros((2, 1, 2, 2), np.uint8), np.array([0, 2])
    rows = Rows(images, labels)
    with pytest.raises(BadInput, match=r"labels run from 0 to 2: need 0\.\.1$"):
        Dataset("mine", rows, rows, 2, Preprocessing(scale=1.0))
    assert Dataset("mine", rows, rows, 3, Preprocessing(scale=1.0)).classes == 3
    short = Rows(images, labels, {"town": np.array([1])})
    with pytest.raises(BadInput, match="town names 1 owners of 2 test samples: need equally many"):
        Dataset("mine", rows, short, 3, Preprocessing(scale=1.0))
