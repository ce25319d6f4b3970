"""Learning-rate schedules: factors by hand, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from favano.errors import BadInput
from favano.options import options_of
from favano.specification.parts import TrainingPart
from favano.training.rate_schedule import parse_rates, rate_factors

DOCUMENTED = Path(__file__).parents[2] / "docs" / "how-to" / "training.md"
PLACES = np.array([0.0, 25.0, 50.0, 75.0, 100.0, np.inf])


@pytest.mark.parametrize(
    ("text", "factors"),
    [
        ("constant", [1, 1, 1, 1, 1, 1]),
        ("linear", [1, 0.75, 0.5, 0.25, 0, 0]),
        ("linear:0.2", [1, 0.8, 0.6, 0.4, 0.2, 0.2]),
        ("cosine", [1, 0.5 + np.sqrt(0.125), 0.5, 0.5 - np.sqrt(0.125), 0, 0]),
        ("cosine:0.5", [1, 0.75 + np.sqrt(0.125) / 2, 0.75, 0.75 - np.sqrt(0.125) / 2, 0.5, 0.5]),
        ("steps:0.1:0.25:0.75", [1, 0.1, 0.1, 0.01, 0.01, 0.01]),
    ],
)
def test_factors_by_hand(text: str, factors: list[float]) -> None:
    assert rate_factors(parse_rates(text), PLACES, 100.0, 0.0) == pytest.approx(factors)


def test_a_warm_up_grows_on_a_line_and_never_trains_nothing() -> None:
    factors = rate_factors(parse_rates("constant"), np.arange(6.0), 100.0, 3.0)
    assert factors == pytest.approx([0.25, 0.5, 0.75, 1, 1, 1])


def test_the_factor_of_a_warm_up_is_documented() -> None:
    """Its 1 is a unit of the clock: with all times doubled, a run begins with another share."""
    assert "(t + 1) / (WARM_UP + 1)" in options_of(TrainingPart)["warm_up"].text
    assert "(t + 1) / (W + 1) times the rate" in DOCUMENTED.read_text(encoding="utf-8")
    for unit in (1.0, 2.0):
        times, warm_up = unit * np.array([0.0, 3.0, 9.0]), unit * 9.0
        factors = rate_factors(parse_rates("constant"), times, 100.0, warm_up)
        assert factors == pytest.approx((times + 1) / (warm_up + 1))


BAD = [
    "sine", "constant:1", "linear:2", "cosine:0:0", "steps", "steps:0.5", "steps:0.1:0.5:0.2",
    "linear:x",
]  # fmt: skip


@pytest.mark.parametrize("text", BAD)
def test_refused(text: str) -> None:
    with pytest.raises(BadInput, match=f"^rate_schedule={text}: need constant, linear"):
        parse_rates(text)
