"""Flower's arrays in the order of a flat model."""

from __future__ import annotations

import pytest

pytest.importorskip("flwr")

import numpy as np
import torch
from flwr.app import Array, ArrayRecord

from favano.errors import BadInput
from favano.flower.flat_arrays import flat_arrays
from favano.flower.payload import shape_of
from favano.training import FlatModel
from tests.flower.calls import network


def test_arrays_lie_as_in_a_flat_model() -> None:
    flat = FlatModel(network(), device="cpu")
    arrays = ArrayRecord(network().state_dict())
    found = flat_arrays(arrays)
    assert found.layout == flat.layout
    assert found.shape == shape_of(flat)
    assert torch.equal(found.vector(arrays), flat.snapshot())


def test_they_come_back_as_they_were() -> None:
    arrays = ArrayRecord(network().state_dict())
    found = flat_arrays(arrays)
    again = found.arrays(found.vector(arrays))
    assert list(again) == list(arrays)
    for name, one in arrays.items():
        assert again[name].numpy().dtype == one.numpy().dtype
        np.testing.assert_array_equal(again[name].numpy(), one.numpy())


@pytest.mark.parametrize(
    ("numbers", "sentence"),
    [
        (np.zeros(3, np.float16), "need float32 or float64"),
        (np.zeros(3, np.int64), "at least one array of parameters"),
        (np.array([True]), "need numbers"),
    ],
)
def test_other_arrays_are_refused(numbers: np.ndarray, sentence: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(BadInput, match=sentence):
        flat_arrays(ArrayRecord({"weight": Array(numbers)}))


def test_single_numbers_are_parameters_and_counters_are_rounded() -> None:
    arrays = ArrayRecord(
        {
            "scale": Array(np.array([2.0], np.float32)),
            "seen": Array(np.array(7, np.int64)),
            "weight": Array(np.array([3.0, 4.0], np.float32)),
        }
    )
    found = flat_arrays(arrays)
    assert (found.shape.sizes, found.shape.plain, found.layout.parameters) == ((1, 2), 1, 3)
    assert found.vector(arrays).tolist() == [2.0, 3.0, 4.0, 7.0]
    back = found.arrays(torch.tensor([2.5, 3.5, 4.5, 7.6]))
    assert back["seen"].numpy() == 8
    assert back["scale"].numpy().tolist() == [2.5]
