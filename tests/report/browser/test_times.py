"""Plots of clients over time are drawn, and read by keyboard and by pointing at them."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from .conftest import NARROW, WIDE, Open


@pytest.mark.quick("390")
@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_all_is_drawn_in_silence(opened: Open, times_report: Path, width: int) -> None:
    """Availability once, since both methods meet the same; jobs for each method."""
    seen = opened(times_report, width)
    assert seen.complaints == []
    page = seen.page
    assert page.locator("figure[data-chart=availability] svg").count() == 1
    assert page.locator("figure[data-chart=jobs] svg").count() == 2
    bars = page.locator("figure[data-chart=jobs]").first.locator(".job")
    assert [bars.nth(job).get_attribute("class") for job in range(4)] == [
        f"job outcome-{outcome}" for outcome in (0, 2, 1, 3)
    ]
    assert bars.nth(0).locator("title").text_content() == (
        "client 1, time 0 to 10: 5 steps, used by server step 1"
    )
    assert bars.nth(1).locator("title").text_content() == "client 0, time 0 to 12: 2 steps, lost"
    boxes = [bars.nth(job).locator("rect").bounding_box() for job in range(4)]
    widths = [box["width"] if box else 0.0 for box in boxes]
    assert widths[3] / widths[0] == pytest.approx(15 / 10, rel=0.02)
    tops = [box["y"] if box else 0.0 for box in boxes]
    assert abs(tops[0] - tops[2]) < 1  # of one client
    assert tops[0] < tops[1] < tops[3]


def test_availability_is_a_row_for_each_client(opened: Open, times_report: Path) -> None:
    page = opened(times_report).page
    figure = page.locator("figure[data-chart=availability]")
    strokes = figure.locator(".map path")
    opacity = [float(strokes.nth(k).get_attribute("stroke-opacity") or 0) for k in range(2)]
    assert opacity == pytest.approx([4 / 9, 1])
    drawn = str(strokes.nth(1).get_attribute("d"))
    assert drawn.count("M") == 3  # client 1 all the time, client 0 a half, client 2 a quarter
    ends = [float(part.split("H")[1]) - float(part.split()[0]) for part in drawn.split("M")[1:]]
    assert ends[0] / ends[1] == pytest.approx(2, rel=0.01)
    assert ends[0] / ends[2] == pytest.approx(4, rel=0.01)


def test_times_are_read_by_keyboard(opened: Open, times_report: Path) -> None:
    page = opened(times_report).page
    slider = page.locator("figure[data-chart=jobs] .reader").first
    slider.focus()
    page.keyboard.press("Home")
    expect(slider).to_have_attribute(
        "aria-valuetext", "time 0: jobs: used 1, jobs: lost 1, clients without a job 1"
    )
    page.keyboard.press("End")
    expect(slider).to_have_attribute("aria-valuetext", "time 20: clients without a job 3")
    slider = page.locator("figure[data-chart=availability] .reader")
    slider.focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    expect(slider).to_have_attribute(
        "aria-valuetext",
        "time 5 to 10: clients there 66.7 %, of the rows 2 of 3, some of the time",
    )


def test_curves_against_energy(opened: Open, times_report: Path) -> None:
    """FedAvg does not count it, and is not drawn against it."""
    page = opened(times_report).page
    assert page.locator("#curves .lines > g").count() == 3
    page.get_by_role("radio", name="energy").click()
    assert page.locator("#curves .title").first.text_content() == "energy of all clients, joules"
    assert page.locator("#curves .lines > g").count() == 1
    assert "400" in page.locator("#curves .axes text").all_text_contents()
