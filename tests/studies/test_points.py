"""Which points are tried: as many for every method, from its own grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import pytest

from favano.errors import BadInput
from favano.planning.comparison import comparison
from favano.specification.spec import Spec
from favano.studies.points import (
    Axes,
    axes_of,
    drawn_points,
    equal_grids,
    parse_grid,
    spread_points,
)
from favano.studies.search import halving

GRID = {"learning_rate": ["0.05", "0.2", "0.8"], "fedbuff.server_learning_rate": ["0.1", "1"]}


def specs(*names: str) -> list[Spec]:
    return comparison({"clients": 10, "selected": 3}, [{"algorithm": name} for name in names])


def test_every_method_tries_as_many_points_in_its_own_range(
    caplog: pytest.LogCaptureFixture,
) -> None:
    axes = axes_of(specs("favano", "fedbuff"), GRID)
    assert axes[0] == {"learning_rate": (0.05, 0.2, 0.8)}
    assert axes[1] == {**axes[0], "server_learning_rate": (0.1, 1.0)}
    mine, theirs = equal_grids(["favano", "fedbuff"], axes)
    assert len(mine) == len(theirs) == 6
    rates = [float(str(point["learning_rate"])) for point in mine]
    assert rates[:3] == [0.05, 0.2, 0.8]
    assert len(set(rates)) == 6
    assert all(0.05 < rate < 0.8 for rate in rates[3:])
    (said,) = caplog.messages
    assert said.startswith("3 more points for favano, so that all methods try 6: learning_rate=")


def test_a_value_for_one_method_goes_before_that_for_all() -> None:
    given: dict[str, list[float]] = {"learning_rate": [0.1, 0.2], "fedbuff.learning_rate": [1, 2]}
    mine, theirs = axes_of(specs("favano", "fedbuff"), given)
    assert (mine["learning_rate"], theirs["learning_rate"]) == ((0.1, 0.2), (1.0, 2.0))
    assert axes_of(specs("fedbuff", "favano"), {"buffer": [3, 5], "learning_rate": [1]}) == [
        {"buffer": (3, 5), "learning_rate": (1.0,)},
        {"learning_rate": (1.0,)},
    ]


@pytest.mark.parametrize(
    ("grid", "sentence"),
    [
        ({}, "grid=nothing: need at least one, as learning_rate=0.05,0.2,0.8"),
        ({"lr": [1, 2]}, "lr=1,2: unknown key; did you mean learning_rate?"),
        ({"mixing": [0.1, 0.2]}, "mixing=0.1,0.2: "),
        ({"quafl.learning_rate": [1]}, "grid=quafl: is not tuned; need one of favano, fedbuff"),
        ({"seeds": [1, 2]}, "grid=seeds: says what methods are tuned for; "),
        ({"fast_fraction": [0.1]}, "grid=fast_fraction: says what methods are tuned for; "),
        ({"buffer": [3, 5]}, "grid=favano: has none of the keys of the grid"),
        ({"learning_rate": [0.1, 0.1]}, "grid=learning_rate=0.1: is given twice"),
        ({"learning_rate": ["a"]}, "learning_rate=a: need a valid number"),
        ({"learning_rate": 0.1}, "grid=learning_rate=0.1: need a list of values"),
    ],
)
def test_bad_grids_are_refused(grid: Mapping[str, Sequence[object]], sentence: str) -> None:
    with pytest.raises(BadInput) as refused:
        axes_of(specs("favano", "fedbuff"), grid)
    assert str(refused.value).startswith(sentence)


def test_a_grid_of_words_that_cannot_be_as_large_is_refused() -> None:
    grid: dict[str, list[object]] = {
        "favano.reweight": ["none", "stochastic"],
        "fedbuff.buffer": [3, 4, 5],
    }
    axes = axes_of(specs("favano", "fedbuff"), grid)
    with pytest.raises(BadInput, match="favano has 2 points, another method 3; need as many"):
        equal_grids(["favano", "fedbuff"], axes)
    with pytest.raises(BadInput, match=r"^trials=4: the grid of favano has 2 different points"):
        drawn_points(["favano", "fedbuff"], axes, 4)


def test_spread_points_fill_the_range_and_keep_types() -> None:
    axes: Axes = {
        "rate": (0.001, 1.0),
        "buffer": (2, 50),
        "mode": ("block", "code"),
        "shift": (-1.0, 1.0),
    }
    points = spread_points(axes, 64)
    assert points == spread_points(axes, 64)
    assert len({tuple(point.items()) for point in points}) == 64
    rates = sorted(float(str(point["rate"])) for point in points)
    assert 0.001 <= rates[0] < 0.002
    assert 0.5 < rates[-1] <= 1
    assert 0.4 < sum(rate < 0.0316 for rate in rates) / 64 < 0.6  # half of them below the root
    assert {type(point["buffer"]) for point in points} == {int}
    assert {point["mode"] for point in points} == {"block", "code"}
    shifts = [float(str(point["shift"])) for point in points]
    assert 0.4 < sum(shift < 0 for shift in shifts) / 64 < 0.6
    assert all(point not in points for point in spread_points(axes, 5, points))


def test_a_grid_is_read_from_the_command_line() -> None:
    names = ["FedBuff, 0.1 (a=b)", "favano"]
    texts = ["FedBuff, 0.1 (a=b).server-learning-rate=1,2", "learning-rate=0.1"]
    assert parse_grid(texts, names) == {
        "FedBuff, 0.1 (a=b).server_learning_rate": ["1", "2"],
        "learning_rate": ["0.1"],
    }
    for text in ("learning_rate", "learning_rate=", "=1", "learning_rate=1,,2"):
        with pytest.raises(BadInput, match=r"need KEY=VALUE,VALUE or METHOD\.KEY=VALUE,VALUE"):
            parse_grid([text], names)
    with pytest.raises(BadInput, match="learning_rate is given twice"):
        parse_grid(["learning_rate=1", "learning-rate=2"], names)


@pytest.mark.parametrize("points", range(2, 60))
def test_a_third_goes_on_for_three_times_as_long(points: int) -> None:
    rungs = halving(points)
    assert rungs[0].points == points
    assert rungs[-1].time == 1
    assert len(rungs) >= 2
    for rung, following in pairwise(rungs):
        assert following.time == pytest.approx(3 * rung.time)
        assert following.points == -(-rung.points // 3)
