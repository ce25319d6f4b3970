"""Time, steps and bits to a target, by hand."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from favano.errors import BadInput
from favano.records import LOSS, MetricRecord
from favano.report import target_of, target_table
from favano.report.page import render
from favano.report.targets import Target, cost_of, target_cells
from favano.results import collect

from .conftest import Writer, a_row


@pytest.fixture
def two(tmp_path: Path, write: Writer) -> Path:
    write(
        tmp_path / "favano", {"algorithm": "favano"}, [[0.1, 0.8, 0.8], [0.1, 0.3, 0.9]], "complete"
    )
    write(
        tmp_path / "fedavg", {"algorithm": "fedavg"}, [[0.1, 0.2, 0.4], [0.1, 0.2, 0.8]], "complete"
    )
    return tmp_path


def test_ninety_per_cent_of_the_best(two: Path) -> None:
    """FAVANO ends at a mean of 85 %: the target is 76.5 %, reached at times 10 and 20."""
    favano, fedavg = collect([two])
    target = target_of([favano, fedavg])
    assert target is not None
    assert target.value == pytest.approx(0.765)
    assert target.words == "accuracy 76.5 %, 90 % of the best"
    cost = cost_of(favano, target)
    assert (cost.time, cost.server_steps, cost.local_steps, cost.gigabits) == (15.0, 1.5, 7.5, 3.0)
    assert (cost.reached, cost.seeds) == (2, 2)
    other = cost_of(fedavg, target)
    assert (other.time, other.reached, other.seeds) == (20.0, 1, 2)  # of the seed that reaches it


def test_nobody_reaches_it(two: Path) -> None:
    results = collect([two])
    target = target_of(results, 0.95)
    assert target is not None
    assert target.words == "accuracy 95.0 %"
    cost = cost_of(results[0], target)
    assert math.isnan(cost.time)
    assert target_cells(results[0], target)["time"] == "–"
    assert target_cells(results[0], target)["reached"] == "0 of 2"


@pytest.mark.parametrize("value", [0.0, -1.0, 80.0, math.nan, math.inf])
def test_a_share_is_between_none_and_one(two: Path, value: float) -> None:
    with pytest.raises(BadInput, match=r"^target=.*: need a share of one, as 0\.8$"):
        target_of(collect([two]), value)


def test_low_metrics_are_reached_from_above() -> None:
    row = a_row(0, 1, 0.7)  # of loss 0.3
    assert Target(LOSS, 0.31, given=True).reached(row)
    assert not Target(LOSS, 0.29, given=True).reached(row)
    assert Target(LOSS, 0.31, given=False).words == "loss 0.31, the best / 0.9"
    assert Target(MetricRecord("mae", "low", "kW"), 2.0, given=True).words == "mae 2 kW"


def test_the_page_and_the_screen_have_a_table(two: Path) -> None:
    results = collect([two])
    text = render(results, "two")
    assert "<caption>To accuracy 76.5 %, 90 % of the best</caption>" in text
    assert '<td role="cell" data-column="time" data-label="time">15</td>' in text
    assert "To accuracy 30.0 %<" in render(results, "two", 0.3)
    assert "To accuracy" not in render(results[:1], "one")  # its own best says little
    target = target_of(results)
    assert target is not None
    headings = [column.header for column in target_table(results, target).columns]
    assert headings[:2] == ["method", "time"]


def test_only_complete_results_set_the_target(compared: Path) -> None:
    """FedBuff, which is partial, has 90 % so far; FAVANO ends at 75 %."""
    target = target_of(collect([compared]))
    assert target is not None
    assert target.value == pytest.approx(0.9 * 0.75)
    assert target_of(collect([compared / "fedbuff"])) is None
