"""The page on phones, in the dark, on paper, without scripts, and for those who cannot see it."""

from __future__ import annotations

from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from .conftest import NARROW, WIDE, Open, Scheme


@pytest.mark.quick("390")
@pytest.mark.parametrize("width", [320, NARROW, 768, WIDE])
def test_nothing_overflows(
    opened: Open, report: Path, settings_report: Path, times_report: Path, width: int
) -> None:
    for path in (report, settings_report, times_report):
        page = opened(path, width).page
        page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_plot_is_seen_without_scrolling(
    opened: Open, report: Path, settings_report: Path
) -> None:
    for path in (report, settings_report):
        page = opened(path).page
        box = page.locator("#curves .stage svg").first.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= 900
        assert box["height"] >= 280


def test_dark_mode_and_paper(opened: Open, report: Path) -> None:
    style = (
        "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
    )
    assert opened(report).page.evaluate(style) == ["rgb(253, 253, 252)", "rgb(27, 28, 30)"]
    dark = opened(report, scheme="dark").page
    assert dark.evaluate(style) == ["rgb(21, 23, 26)", "rgb(236, 236, 234)"]
    dark.emulate_media(media="print")
    assert dark.evaluate(style) == ["rgba(0, 0, 0, 0)", "rgb(27, 28, 30)"]
    expect(dark.locator(".segments").first).to_be_hidden()
    dark.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert dark.locator("#curves .stage svg").get_attribute("width") == "704"


def test_less_motion_on_request(opened: Open, report: Path) -> None:
    behaviour = "getComputedStyle(document.documentElement).scrollBehavior"
    assert opened(report).page.evaluate(behaviour) == "smooth"
    assert opened(report, still=True).page.evaluate(behaviour) == "auto"


@pytest.mark.quick("settings_report-390-dark")
@pytest.mark.parametrize(
    ("what", "width", "scheme"),
    [
        ("report", NARROW, "light"),
        ("report", WIDE, "dark"),
        ("settings_report", NARROW, "dark"),
        ("settings_report", WIDE, "light"),
        ("times_report", NARROW, "dark"),
        ("times_report", WIDE, "light"),
    ],
)
def test_accessible(
    opened: Open, request: pytest.FixtureRequest, what: str, width: int, scheme: Scheme
) -> None:
    page = opened(request.getfixturevalue(what), width, scheme).page
    page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    outcome = Axe().run(page)
    assert outcome.violations_count == 0, outcome.generate_report()


def test_without_scripts_the_numbers_are_there(opened: Open, report: Path) -> None:
    page = opened(report, scripts=False).page
    assert page.locator("#final td[data-column=accuracy]").first.inner_text() == "75.0 ± 7.1"
    expect(page.locator("#reference")).to_be_hidden()
    expect(page.get_by_text("The plots need JavaScript")).to_be_visible()
