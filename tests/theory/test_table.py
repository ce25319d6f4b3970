"""Table 1: corrected rows have no unit, three printed ones do."""

from __future__ import annotations

import pytest
from hypothesis import given

from favano.errors import BadInput
from favano.theory import Delays, Method, TheoryProblem, TheorySetting, table_complexity
from tests.theory.units import PROBLEMS, SETTINGS, has_unit

METHODS: tuple[Method, ...] = ("fedavg", "fedbuff", "asyncsgd", "quafl", "favano")
DELAYS = Delays(largest=30.0, average=4.0, common_steps=5.0)
EXAMPLE = TheorySetting(clients=100, selected=20, local_steps=10, mean_a=0.3, b=1.4)


@given(where=SETTINGS, problem=PROBLEMS)
def test_corrected_rows_are_numbers_of_steps(where: TheorySetting, problem: TheoryProblem) -> None:
    for method in METHODS:
        for term in range(3):
            assert has_unit(
                lambda p, rate, eps, m=method, k=term: table_complexity(  # type: ignore[misc]
                    m, where, p, eps, delays=DELAYS
                )[k],
                problem, f=0, x=0,
            )  # fmt: skip


@pytest.mark.parametrize(
    ("method", "wrong"),
    [("fedavg", {0, 1}), ("fedbuff", set()), ("asyncsgd", {2}), ("quafl", set()), ("favano", {1})],
)
def test_which_printed_terms_have_no_consistent_unit(method: Method, wrong: set[int]) -> None:
    problem = TheoryProblem(smoothness=2.0, noise=0.7, dissimilarity=1.3, growth=1.2, gap=3.0)
    terms = {
        term
        for term in range(3)
        if not has_unit(
            lambda p, rate, eps, k=term: table_complexity(  # type: ignore[misc]
                method, EXAMPLE, p, eps, delays=DELAYS, form="printed"
            )[k],
            problem,
            f=0,
            x=0,
        )
    }
    assert terms == wrong


def test_rows_by_hand() -> None:
    """All constants 1 but those of the row, at a target of 1: the formulas as they stand."""
    rows = {m: table_complexity(m, EXAMPLE, TheoryProblem(), 1.0, delays=DELAYS) for m in METHODS}
    assert rows["fedavg"] == pytest.approx(((1 + 0.8 * 10) / 200, 1, 1))
    assert rows["fedbuff"] == pytest.approx((2, ((900 / 400 + 1) * 101) ** 0.5, 1))
    assert rows["asyncsgd"] == pytest.approx((7, 80**0.5, 600**0.5))
    assert rows["quafl"] == pytest.approx(
        (10 * 21 / 25, 1000 / (5 * 100**0.5) * 10 * 21**0.5, 1000 / (5 * 20**0.5) * 100)
    )
    inside = 100 + 100 + 400 * 0.3 + 400 * 1.4  # K^2 sigma^2 + K^2 G^2 + s^2 (sigma^2 a + G^2 b)
    assert rows["favano"] == pytest.approx((0.3 + 8 * 1.4, 5 * inside**0.5, 100 * 10**2 / 20))
    half = table_complexity("fedbuff", EXAMPLE, TheoryProblem(), 0.25, delays=DELAYS)
    assert half == pytest.approx((32, 8 * rows["fedbuff"].middle, 4))


def test_bad_input_is_refused_by_name() -> None:
    with pytest.raises(BadInput, match="method=scaffold: need one of fedavg"):
        table_complexity("scaffold", EXAMPLE, TheoryProblem(), 1.0)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="common_steps=0"):
        Delays(common_steps=0)
    with pytest.raises(BadInput, match="largest=-1"):
        Delays(largest=-1)
