from __future__ import annotations

import sys

import numpy as np
import pytest

from favano.data.dirichlet import dirichlet
from favano.errors import BadInput

LABELS = np.arange(3000) % 10


def skew(concentration: float) -> float:
    """Mean share of a client's most frequent class."""
    parts = dirichlet(LABELS, 20, concentration, seed=1)
    shares = [np.bincount(LABELS[part]).max() / len(part) for part in parts]
    return float(np.mean(shares))


def test_everything_is_dealt_and_nobody_is_empty() -> None:
    parts = dirichlet(LABELS, 20, 0.5, seed=1)
    assert sorted(np.concatenate(parts).tolist()) == list(range(3000))
    assert min(len(part) for part in parts) >= 1
    assert all((np.diff(part) > 0).all() for part in parts)


def test_small_concentration_is_far_from_uniform() -> None:
    assert skew(0.2) > 0.4
    assert skew(1000.0) < 0.15


def test_the_seed_decides_alone() -> None:
    first, again, other = (dirichlet(LABELS, 5, 0.5, seed) for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


def test_a_hopeless_concentration_is_refused() -> None:
    message = (
        r"^split=dirichlet:0\.001: every draw left one of 100 clients empty: "
        r"need a larger A or fewer clients$"
    )
    with pytest.raises(BadInput, match=message):
        dirichlet(LABELS, 100, 0.001, seed=0)


def test_more_clients_than_samples_are_refused() -> None:
    message = r"^split=dirichlet:1: 4 clients for 3 samples: need at most one client per sample$"
    with pytest.raises(BadInput, match=message):
        dirichlet(np.array([0, 1, 2]), 4, 1.0, seed=0)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "flwr_datasets.partitioner", None)
    with pytest.raises(BadInput, match=r"^split=dirichlet:1: needs pip install 'favano\[data\]'$"):
        dirichlet(LABELS, 5, 1.0, seed=0)


def test_as_many_clients_as_samples_may_be_asked_for() -> None:
    assert [part.tolist() for part in dirichlet(np.array([0]), 1, 1.0, seed=0)] == [[0]]
