"""Flower's arrays in the order of a flat model."""

from __future__ import annotations

import pytest

pytest.importorskip("flwr")

import numpy as np
import torch
from flwr.app import Array, ArrayRecord
from torch import nn

from favano.errors import BadInput
from favano.flower.flat_arrays import check_order, flat_arrays
from favano.flower.payload import shape_of
from favano.training import FlatModel
from tests.flower.calls import network


def test_arrays_lie_as_in_a_flat_model() -> None:
    flat = FlatModel(network(), device="cpu")
    arrays = ArrayRecord(network().state_dict())
    form = flat_arrays(arrays)
    assert form.layout == flat.layout
    assert form.shape == shape_of(flat)
    assert torch.equal(form.vector(arrays), flat.snapshot())


def test_they_come_back_as_they_were() -> None:
    arrays = ArrayRecord(network().state_dict())
    form = flat_arrays(arrays)
    again = form.arrays(form.vector(arrays))
    assert list(again) == list(arrays)
    for name, array in arrays.items():
        assert again[name].numpy().dtype == array.numpy().dtype
        np.testing.assert_array_equal(again[name].numpy(), array.numpy())


def buffered() -> nn.Module:
    net = nn.Sequential(network(), nn.Linear(3, 3))
    net.register_buffer("mask", torch.tensor([0.0, -torch.inf]))
    net.register_buffer("turns", torch.ones(2, dtype=torch.complex64) * 1j)
    net.register_buffer("factor", torch.tensor(2**24 + 1))
    net.register_buffer("places", torch.arange(3, dtype=torch.uint8))
    net.register_buffer("shown", torch.tensor([True, False]))
    return net


def test_constants_are_carried_as_they_are() -> None:
    flat, arrays = FlatModel(buffered(), device="cpu"), ArrayRecord(buffered().state_dict())
    named = flat_arrays(arrays)
    assert (named.order, named.layout) == (flat.names, flat.layout)
    assert named.vector(arrays).isfinite().all()
    check_order(flat)
    state = {
        name: torch.from_numpy(array.numpy())
        for name, array in named.arrays(named.vector(arrays)).items()
    }
    for name, value in buffered().named_buffers():
        assert state[name].dtype == value.dtype
        assert torch.equal(state[name], value)


def test_a_buffer_that_a_server_takes_for_a_parameter_is_refused() -> None:
    net = nn.Sequential(network())
    net.register_buffer("centre", torch.zeros(6))
    with pytest.raises(BadInput, match="model=Sequential: has centre, which a server takes for"):
        check_order(FlatModel(net, device="cpu"))
    net.register_buffer("centre", torch.zeros(6), persistent=False)
    check_order(FlatModel(net, device="cpu"))


@pytest.mark.parametrize(
    ("numbers", "sentence"),
    [
        (np.zeros(3, np.float16), "need float32 or float64"),
        (np.zeros(3, np.int64), "at least one array of parameters"),
        (np.array([True]), "at least one array of parameters"),
        (np.array(["a"]), "need numbers"),
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
    form = flat_arrays(arrays)
    assert (form.shape.sizes, form.shape.plain, form.layout.parameters) == ((1, 2), 1, 3)
    assert form.vector(arrays).tolist() == [2.0, 3.0, 4.0, 7.0]
    back = form.arrays(torch.tensor([2.5, 3.5, 4.5, 7.6]))
    assert back["seen"].numpy() == 8
    assert back["scale"].numpy().tolist() == [2.5]
