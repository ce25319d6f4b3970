import numpy as np

from favano.data.digits import digits


def test_sizes_and_values() -> None:
    dataset = digits()
    assert dataset.train_images.shape == (1437, 1, 8, 8)
    assert dataset.test_images.shape == (360, 1, 8, 8)
    assert dataset.train_images.dtype == np.uint8
    assert (int(dataset.train_images.min()), int(dataset.train_images.max())) == (0, 16)
    assert dataset.preprocessing.scale == 16
    assert dataset.train_labels.dtype == np.int64
    assert np.bincount(dataset.train_labels, minlength=10).min() > 100
    assert np.bincount(dataset.test_labels, minlength=10).min() > 20


def test_nothing_is_lost_or_in_both() -> None:
    from sklearn.datasets import load_digits

    dataset = digits()
    both = np.concatenate([dataset.train_images, dataset.test_images]).reshape(1797, 64)
    original = load_digits().data.astype(np.uint8)
    assert sorted(map(bytes, both)) == sorted(map(bytes, original))


def test_the_split_never_changes() -> None:
    assert digits().test_labels[:12].tolist() == [6, 4, 5, 2, 7, 8, 9, 5, 5, 0, 7, 2]
