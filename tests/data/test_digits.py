import numpy as np

from favano.data.digits import digits


def test_sizes_and_values() -> None:
    dataset = digits()
    assert dataset.train.inputs.shape == (1437, 1, 8, 8)
    assert dataset.test.inputs.shape == (360, 1, 8, 8)
    assert dataset.train.inputs.dtype == np.uint8
    assert (int(dataset.train.inputs.min()), int(dataset.train.inputs.max())) == (0, 16)
    assert dataset.preprocessing.scale == 16
    assert dataset.train.labels.dtype == np.int64
    assert np.bincount(dataset.train.labels, minlength=10).min() > 100
    assert np.bincount(dataset.test.labels, minlength=10).min() > 20


def test_nothing_is_lost_or_in_both() -> None:
    from sklearn.datasets import load_digits

    dataset = digits()
    both = np.concatenate([dataset.train.inputs, dataset.test.inputs]).reshape(1797, 64)
    original = load_digits().data.astype(np.uint8)
    assert sorted(map(bytes, both)) == sorted(map(bytes, original))


def test_the_split_never_changes() -> None:
    assert digits().test.labels[:12].tolist() == [6, 4, 5, 2, 7, 8, 9, 5, 5, 0, 7, 2]
