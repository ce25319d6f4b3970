"""The lattice codec: half a cell within its radius, whole periods beyond it, dither unbiased."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from favano.errors import BadInput
from favano.quantisation import Lattice
from tests.quantisation.draws import SIZES, check_unbiased, noise, vector

NO_NOISE = torch.empty(1, 0)


def carry(codec: Lattice, values: Tensor, key: Tensor) -> Tensor:
    shift = noise(codec, 1)
    return codec.decode(codec.encode(values[None], shift, ()), key[None], ())[0]


def test_the_notebook_constants() -> None:
    assert Lattice().radius == pytest.approx((2**14 - 1) * 1e-4 / 2)


@pytest.mark.parametrize("dither", [False, True])
@given(
    bits=st.integers(1, 32),
    exponent=st.floats(-6, 0),
    value=st.floats(-100, 100),
    place=st.floats(-0.999, 0.999),
)
def test_within_the_radius_the_error_is_half_a_cell(
    dither: bool, bits: int, exponent: float, value: float, place: float
) -> None:
    codec = Lattice(bits=bits, scale=10**exponent, dither=dither)
    values = torch.tensor([value], dtype=torch.float64)
    key = values + place * codec.radius
    error = float((carry(codec, values, key) - values).abs())
    assert error <= codec.scale / 2 * (1 + 1e-6) + 1e-12
    assert not bool(codec.wrapped(values[None], key[None]))


@pytest.mark.parametrize("dither", [False, True])
def test_beyond_the_radius_the_error_is_a_multiple_of_the_period(dither: bool) -> None:
    codec = Lattice(bits=8, scale=1e-2, dither=dither)
    period = 256 * 1e-2
    values = torch.linspace(-3, 3, 500, dtype=torch.float64)
    for distance in (1.0, 1.5, 3.0, 70.0):
        key = values + distance * period
        inside = carry(codec, values, values)
        error = (carry(codec, values, key) - inside) / period
        assert torch.allclose(error, error.round(), atol=1e-9)
        assert int(error.round().abs().min()) >= 1
        assert bool(codec.wrapped(values[None], key[None]))


def test_a_message_is_wrapped_if_one_coordinate_is() -> None:
    codec = Lattice(bits=8, scale=1e-2)
    values = torch.zeros(3, 4, dtype=torch.float64)
    key = values.clone()
    key[1, 2] = codec.radius
    key[2, :] = 0.999 * codec.radius
    assert codec.wrapped(values, key).tolist() == [False, True, False]


def test_codes_count_cells_modulo_the_period() -> None:
    codec = Lattice(bits=3, scale=0.5)
    values = torch.tensor([[0.0, 0.5, -0.5, 3.5, 4.0, -4.0, 1e9]])
    assert codec.encode(values, NO_NOISE, ()).codes.tolist() == [[0, 1, 7, 7, 0, 0, 0]]
    far = torch.tensor([[1e300, -1e300]], dtype=torch.float64)  # no int64 holds these cells
    assert codec.encode(far, NO_NOISE, ()).codes.max() <= codec.largest


def test_dither_is_unbiased_and_plain_rounding_is_not() -> None:
    check_unbiased(Lattice(bits=14, scale=0.03, dither=True), vector())
    plain = Lattice(bits=14, scale=0.03)
    assert float((carry(plain, vector(), vector()) - vector()).abs().max()) > 0.01


def test_dithered_errors_are_uniform_on_a_cell() -> None:
    codec = Lattice(bits=14, scale=0.5, dither=True)
    values = vector().repeat(20_000, 1)
    decoded = codec.decode(codec.encode(values, noise(codec, 20_000), SIZES), values, SIZES)
    error = (decoded - values) / codec.scale
    assert float(error.abs().max()) <= 0.5 + 1e-9
    assert float(error.std(dim=0).max()) == pytest.approx(1 / math.sqrt(12), rel=0.02)


@pytest.mark.parametrize("bits", [0, 33])
def test_impossible_widths_are_refused(bits: int) -> None:
    with pytest.raises(BadInput, match=rf"bits={bits}: need 1..32"):
        Lattice(bits=bits)


@pytest.mark.parametrize("scale", [0.0, -1.0, math.inf, math.nan])
def test_impossible_scales_are_refused(scale: float) -> None:
    with pytest.raises(BadInput, match="scale="):
        Lattice(scale=scale)
