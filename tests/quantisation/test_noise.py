"""Noise from a key: the same everywhere, and uniform."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor
from torch.func import vmap

from favano.quantisation.noise import keep_mask, uniform_noise
from favano.rng import Stream, word

LIKE = torch.empty(200, 500)
FEW = torch.empty(3)


def drawn(client: int = 3, step: int = 5, place: int = 0, like: Tensor = LIKE) -> Tensor:
    return uniform_noise(torch.tensor(word(7, Stream.LUQ, client, step)), place, like)


def steps(count: int) -> Tensor:
    """A few draws for each of so many steps of a client."""
    keys = torch.tensor([word(7, Stream.LUQ, 3, step) for step in range(count)])
    return vmap(lambda key: uniform_noise(key, 0, FEW))(keys)


def test_a_function_of_key_place_and_element() -> None:
    assert torch.equal(drawn(), drawn())
    assert torch.equal(drawn(like=LIKE[:60]), drawn()[:60])  # short batches draw the same
    assert torch.equal(drawn(like=LIKE.double()), drawn().double())
    stack = torch.tensor([word(7, Stream.LUQ, client, 5) for client in range(4)])
    lanes = vmap(lambda key: uniform_noise(key, 2, LIKE))(stack)
    assert torch.equal(lanes, torch.stack([drawn(client, 5, 2) for client in range(4)]))


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(lambda: drawn(), id="one step"),
        pytest.param(lambda: steps(9_000), id="steps"),
        pytest.param(
            lambda: torch.stack([drawn(place=k << 20, like=FEW) for k in range(3_000)]), id="layers"
        ),
    ],
)
def test_uniform(values: object) -> None:
    assert callable(values)
    sample = values().flatten().double().numpy()
    assert sample.min() >= 0
    assert sample.max() < 1
    assert np.array_equal(sample * 2**23, np.round(sample * 2**23))
    counts, _ = np.histogram(sample, bins=256, range=(0, 1))
    assert stats.chisquare(counts).pvalue > 1e-4


def test_neighbours_know_nothing_of_each_other() -> None:
    """Elements, rows, steps, clients and places: correlations within five deviations."""
    base = drawn().double() - 0.5
    others = {
        "element": (base[:, 1:], base[:, :-1]),
        "row": (base[1:], base[:-1]),
        "step": (drawn(step=6).double() - 0.5, base),
        "client": (drawn(client=4).double() - 0.5, base),
        "place": (drawn(place=1).double() - 0.5, base),
    }
    for name, (first, two) in others.items():
        correlation = float((first * two).mean()) * 12
        assert abs(correlation) < 5 / first.numel() ** 0.5, name
        seen, _, _ = np.histogram2d(first.flatten().numpy(), two.flatten().numpy(), bins=16)
        assert stats.chisquare(seen.flatten()).pvalue > 1e-4, name


def test_a_mask_keeps_draws_from_p_on() -> None:
    """False for draws below p alone: a share p of the multiples of 2^-23, and none where p is 0."""
    key, shape = torch.tensor(word(7, Stream.LUQ, 3, 5)), (40, 50)
    draws = uniform_noise(key, 2, torch.empty(shape, dtype=torch.float64))
    for p in (0.0, 0.25, *draws.flatten()[:20].tolist()):
        assert torch.equal(keep_mask(key, 2, shape, p), draws >= p)
