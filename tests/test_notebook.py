"""What notebooks show is well-formed, escaped, drawn where it should be, and equal to the text."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import favano
from favano.errors import BadInput
from favano.notebook import PlotLine, line_plot, share_plot, table
from favano.results import Comparison, collect
from tests.report.conftest import Writer, write  # noqa: F401  # a fixture

HOSTILE = '<script>alert("1")</script>&amp;\'</td>'


def parsed(html: str) -> ElementTree.Element:
    """The HTML as XML, which refuses what is not balanced; namespaces dropped."""
    return ElementTree.fromstring(html.replace(' xmlns="http://www.w3.org/2000/svg"', ""))


def texts(html: str, tag: str) -> list[str]:
    return ["".join(part.itertext()) for part in parsed(html).iter(tag)]


def numbers(path: ElementTree.Element) -> list[float]:
    return [float(word) for word in re.findall(r"-?\d+\.?\d*", path.attrib["d"])]


def test_texts_are_shown_as_they_are() -> None:
    line = PlotLine(HOSTILE, [0, 1], [0, 1])
    shown = (
        table(HOSTILE, [HOSTILE, HOSTILE], [[HOSTILE, HOSTILE]]),
        line_plot([line], HOSTILE, HOSTILE),
        share_plot([HOSTILE], [0.2], [0.5], HOSTILE),
    )
    for html in shown:
        assert HOSTILE in "".join(parsed(html).itertext())
        assert "script" not in {part.tag for part in parsed(html).iter()}


def test_a_line_is_where_its_axes_say() -> None:
    x, y = [0.0, 30.0, 70.0], [12.0, math.nan, 48.0]
    plot = parsed(line_plot([PlotLine("", x, y)], "time", "loss"))
    drawn = next(path for path in plot.iter("path") if path.get("fill") == "none")
    ticks = [part for part in plot.iter("text") if re.fullmatch(r"[\d.]+", part.text or "")]
    down = [(float(t.attrib["y"]) - 4, float(t.text or "")) for t in ticks
            if t.get("text-anchor") == "end"]  # fmt: skip
    along = [(float(t.attrib["x"]), float(t.text or "")) for t in ticks
             if t.get("text-anchor") == "middle"]  # fmt: skip
    (left, top, right, bottom) = numbers(drawn)
    heights, values = zip(*sorted(down), strict=True)
    assert np.interp([top, bottom], heights, values) == pytest.approx([12, 48], abs=0.3)
    places, times = zip(*along, strict=True)
    assert np.interp([left, right], places, times) == pytest.approx([0, 70], abs=0.5)


@pytest.mark.parametrize("value", [0.0, 1e-320, 1e300, -3.0, math.nan, math.inf])
def test_no_number_breaks_a_plot(value: float) -> None:
    line = PlotLine("x", [0.0, 1.0, 2.0], [value, 1.0, value])
    html = line_plot([line], "time", "loss")
    assert "nan" not in html
    assert "inf" not in html
    assert (html == "") == (not abs(value) < 1e100)


def test_bars_are_as_long_as_shares() -> None:
    plot = parsed(share_plot(["fast", "slow"], [0.6, 0.3], [0.5, 0.5], "weight"))
    first, second = (float(bar.attrib["width"]) for bar in plot.iter("rect"))
    assert first == pytest.approx(2 * second, rel=0.01)


def test_results_show_their_table_and_curves(
    tmp_path: Path,
    write: Writer,  # noqa: F811
) -> None:
    write(tmp_path / "a", {"algorithm": "favano"}, [[0.1, 0.6, 0.7]] * 2, "complete")
    write(tmp_path / "b", {"algorithm": "fedbuff", "label": HOSTILE[:40]}, [[0.1, 0.2]], "partial")
    compared = Comparison(collect([tmp_path]))
    html = compared._repr_html_()
    cells = texts(html, "td")
    assert "70.0 ± 0.0" in cells
    assert any(HOSTILE[:40] in cell and "(partial)" in cell for cell in cells)
    lines = [path for path in parsed(html).iter("path") if path.get("fill") == "none"]
    assert len(lines) == 4  # two curves and two samples in the legend
    assert len(texts(compared.results[0]._repr_html_(), "tr")) == 2
    assert Comparison([])._repr_html_() == "<div></div>"


def test_a_result_without_numbers_is_shown(tmp_path: Path, write: Writer) -> None:  # noqa: F811
    write(tmp_path / "a", {"algorithm": "favano"}, [[math.nan, math.nan]], "diverged")
    (result,) = collect([tmp_path])
    assert "diverged" in result._repr_html_()
    assert not texts(result._repr_html_(), "svg")


def test_figures_hold_the_means(tmp_path: Path, write: Writer) -> None:  # noqa: F811
    write(tmp_path / "a", {"algorithm": "favano"}, [[0.1, 0.6], [0.3, 0.8]], "complete")
    write(tmp_path / "b", {"algorithm": "fedbuff"}, [[0.1, 0.4]], "complete")
    compared = Comparison(collect([tmp_path]))
    (axes,) = compared.plot("loss", along="server_steps").axes
    assert [np.asarray(line.get_ydata()).tolist() for line in axes.lines[:2]] == [
        pytest.approx([0.8, 0.3]),
        pytest.approx([0.9, 0.6]),
    ]
    assert [text.get_text() for text in axes.texts] == ["FAVANO", "FedBuff"]
    with pytest.raises(BadInput, match="metric=acc: need one of accuracy, loss"):
        compared.plot("acc")
    with pytest.raises(BadInput, match="along=energy: need one of time, server_steps"):
        compared.results[0].plot(along="energy")


def test_a_missing_matplotlib_is_one_sentence(
    tmp_path: Path,
    write: Writer,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(tmp_path / "a", {"algorithm": "favano"}, [[0.1, 0.6]], "complete")
    (result,) = collect([tmp_path])
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(BadInput, match=r"needs pip install 'favano\[print\]'"):
        result.plot()
    assert texts(result._repr_html_(), "svg")


@pytest.mark.parametrize("keys", [{}, {"server": [favano.adam(0.1)]}])
def test_a_plan_shows_what_it_prints(keys: dict[str, Any]) -> None:
    fleet = favano.Fleet(mean=[1, 2, 20, 30], availability="two-state:50:5")
    plan = favano.plan("favano", "digits", fleet, selected=2, horizon=300, **keys)
    html, lines = plan._repr_html_(), str(plan).splitlines()
    (first, *_, last) = plan.schedule.time
    assert 0 < first < last <= 300
    for cell in texts(html, "td"):
        assert any(cell in line for line in lines)
    assert texts(html, "p") == lines[-len(texts(html, "p")) :]
    weights = plan.weights
    bars = [float(bar.attrib["width"]) for bar in list(parsed(html).iter("rect"))[:4]]
    assert (weights is None) == bool(keys)
    jobs = np.bincount(plan.schedule.client[: plan.schedule.jobs], minlength=4)
    each = jobs / jobs.sum() if weights is None else weights.each
    assert np.array(bars) / sum(bars) == pytest.approx(each, abs=0.01)


FLEETS: dict[str, tuple[Callable[[], favano.Fleet], list[tuple[float, float]]]] = {
    "two speeds": (lambda: favano.Fleet.two_speeds(20, fast=0.25), [(10, 2), (90, 16)]),
    "means": (lambda: favano.Fleet(mean=[9, 1]), [(10, 1), (90, 9)]),
    "groups": (
        lambda: favano.Fleet.groups(
            [{"name": HOSTILE, "share": 0.7, "mean": 5}, {"share": 0.3, "mean": 3}]
        ),
        [(10, 3), (90, 5)],
    ),
    "phones": (lambda: favano.Fleet.phones(100), []),
    "one speed": (lambda: favano.Fleet.two_speeds(20, fast=1.0), [(10, 2), (90, 2)]),
}


@pytest.mark.parametrize("case", FLEETS)
def test_fleets_show_their_speeds(case: str) -> None:
    make, expected = FLEETS[case]
    html = make()._repr_html_()
    assert (HOSTILE in texts(html, "td")) == (case == "groups")
    plots = list(parsed(html).iter("svg"))
    assert len(plots) == bool(expected)
    if not expected:
        return
    drawn = next(path for path in plots[0].iter("path") if path.get("fill") == "none")
    points = np.array(numbers(drawn)).reshape(-1, 2)
    ticks = [part for part in plots[0].iter("text") if part.get("text-anchor") == "end"]
    scale = sorted((float(t.attrib["y"]) - 4, float(t.text or "")) for t in ticks)
    heights, values = zip(*scale, strict=True)
    left, right = points[0, 0], points[-1, 0]
    for share, mean in expected:
        at = np.interp(left + share / 100 * (right - left), points[:, 0], points[:, 1])
        assert np.interp(at, heights, values) == pytest.approx(mean, abs=0.3)
