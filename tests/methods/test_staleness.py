"""Weights of late updates (P10: sigma(0) = 1, non-increasing, the hinge continuous)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from favano.errors import BadInput
from favano.methods.staleness import Hinge, Polynomial, parse_staleness


@given(power=st.floats(0, 5), slope=st.floats(0.01, 50), knee=st.floats(0, 30))
def test_p10_weights_start_at_one_and_never_grow(power: float, slope: float, knee: float) -> None:
    delays = np.arange(100)
    for weight in (Polynomial(power)(delays), Hinge(slope, knee)(delays)):
        assert weight[0] == 1.0
        assert (np.diff(weight) <= 0).all()
        assert (weight > 0).all()


def test_hinge_is_continuous_at_its_knee() -> None:
    weights = Hinge(10.0, 4.0)(np.array([3, 4, 5, 6]))
    assert weights == pytest.approx([1, 1, 1 / 11, 1 / 21])


@pytest.mark.parametrize(
    "text", ["", "linear", "polynomial", "polynomial:x", "polynomial:-1", "hinge:1", "constant:2"]
)
def test_unknown_weights_are_refused(text: str) -> None:
    with pytest.raises(BadInput, match=f"staleness={text}: need constant, polynomial:A"):
        parse_staleness(text)
