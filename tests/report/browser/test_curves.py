"""Zoom, files, links and filters of the curves."""

from __future__ import annotations

import csv
import io
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from favano.report import write_page
from favano.results import collect
from tests.report.conftest import Writer

from .conftest import NARROW, Open


@pytest.fixture
def variants(tmp_path: Path, write: Writer) -> Path:
    """Two methods with two learning rates each, and two seeds."""
    for name in ("favano", "fedavg"):
        for rate in (0.1, 0.5):
            spec = {"algorithm": name, "learning_rate": rate, "horizon": 20.0}
            end = rate + (0.3 if name == "favano" else 0.0)
            write(
                tmp_path / "v" / f"{name}-{rate}",
                spec,
                [[0.1, 0.2, end], [0.1, 0.3, end]],
                "complete",
            )
    path = tmp_path / "variants.html"
    write_page(collect([tmp_path / "v"]), path, "Variants")
    return path


def ticks(page: Page) -> list[str]:
    return page.locator("#curves .axes text[text-anchor=middle]:not(.title)").all_text_contents()


def drag(page: Page, start: float, end: float) -> None:
    """Over the plot, from and to a share of its width between the axes."""
    plot = page.locator("#curves .stage .base").first.bounding_box()
    assert plot is not None
    x = [plot["x"] + share * plot["width"] for share in (start, end)]
    page.mouse.move(x[0], plot["y"] - 100)
    page.mouse.down()
    page.mouse.move(sum(x) / 2, plot["y"] - 90)
    expect(page.locator("#curves .selection")).to_have_count(1)
    page.mouse.move(x[1], plot["y"] - 80)
    page.mouse.up()


def test_dragging_shows_a_part_and_a_double_click_the_whole(opened: Open, report: Path) -> None:
    seen = opened(report)
    page = seen.page
    whole = ticks(page)
    drag(page, 0.75, 0.25)  # to the left, too
    expect(page.locator(".selection")).to_have_count(0)
    edges = [float(page.get_by_label(name, exact=True).input_value()) for name in ("from", "to")]
    assert edges == pytest.approx([5.0, 15.0], abs=0.2)
    assert ticks(page) != whole
    assert all(edges[0] <= float(tick) <= edges[1] for tick in ticks(page))
    expect(page.locator("#said")).to_contain_text(", from 5 to 15.")
    slider = page.locator("#curves .reader")
    assert slider.get_attribute("max") == "0"  # of the evaluations at 0, 10 and 20 one is left
    page.locator("#curves .stage").first.dblclick(position={"x": 300, "y": 100})
    assert ticks(page) == whole
    assert slider.get_attribute("max") == "2"
    drag(page, 0.5, 0.503)  # a click
    assert ticks(page) == whole
    assert seen.complaints == []


def test_zoom_by_keyboard(opened: Open, report: Path) -> None:
    page = opened(report).page
    whole = ticks(page)
    page.get_by_label("from", exact=True).focus()
    page.keyboard.type("5")
    page.keyboard.press("Tab")
    assert ticks(page)[0] == "5"  # up to the end
    assert ticks(page)[-1] == whole[-1]
    page.keyboard.type("4")  # below the other end: no range
    page.keyboard.press("Tab")
    assert ticks(page) == whole
    page.keyboard.press("Enter")  # the button
    assert page.get_by_label("from", exact=True).input_value() == ""
    assert page.evaluate("location.hash") == ""


@pytest.mark.slow
@pytest.mark.parametrize("log", [False, True])
def test_every_range_is_drawn(opened: Open, report: Path, *, log: bool) -> None:
    """Of all axes and measures, with lines of seeds, and of a range without any value."""
    seen = opened(report)
    page = seen.page
    page.locator("#seeds").check()
    if log:
        page.locator("#log").check()
    for measure in page.locator("input[name=measure]").all():
        measure.check(force=True)
        for axis in page.locator("input[name=axis]").all():
            axis.check(force=True)
            for part in ((0.2, 0.9), (0.4, 0.45), (0.3, 0.7)):
                drag(page, *part)
                inside = page.locator("#curves .stage").inner_html()
                assert not re.findall(r".{80}(?:NaN|Infinity).{20}", inside)
    assert seen.complaints == []


def test_lines_of_single_seeds(opened: Open, report: Path) -> None:
    page = opened(report).page
    expect(page.locator("#curves .seeds path")).to_have_count(0)
    page.get_by_role("checkbox", name="lines of single seeds").check()
    expect(page.locator("#curves .seeds path")).to_have_count(4)  # FedBuff has one seed
    page.get_by_role("checkbox", name="FedAvg").uncheck()
    expect(page.locator("#curves .seeds path")).to_have_count(2)


def test_a_link_keeps_everything(opened: Open, report: Path, variants: Path) -> None:
    page = opened(report).page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("radio", name="loss").click()
    page.get_by_role("radio", name="bits").click()
    page.locator("#seeds").check()
    page.get_by_role("checkbox", name="FedAvg").uncheck()
    page.get_by_label("Differences against").select_option("FedAvg")
    drag(page, 0.2, 0.6)
    page.get_by_role("button", name="Copy link").click()
    expect(page.locator("#said")).to_have_text("The link is copied.")
    link = page.evaluate("navigator.clipboard.readText()")
    assert link == page.evaluate("location.href")
    again = opened(link).page
    for part in ("#curves .stage svg", "#final", "#measure-name"):
        assert again.locator(part).first.inner_html() == page.locator(part).first.inner_html()
    assert again.locator("input:checked").count() == page.locator("input:checked").count()
    assert again.evaluate("location.href") == link
    again.get_by_role("button", name="Whole run").click()
    again.evaluate(f"location.hash = {link.partition('#')[2]!r}")  # pasted into the same window
    expect(again.get_by_label("to", exact=True)).not_to_have_value("")


def test_a_link_of_somebody_else_can_do_nothing_wrong(opened: Open, report: Path) -> None:
    evil = "#measure=<img src=x onerror=hacked=1>&axis=no&from=x&to=1e999&hide=nobody&key.x=1&log=2"
    for fragment in (evil, "#reference=evil&place=9&measure=loss%22", "#=&&", "#final"):
        seen = opened(report.as_uri() + fragment)
        assert seen.complaints == []
        assert seen.page.evaluate("typeof hacked") == "undefined"
        assert seen.page.locator("#measure-name").inner_text() == "Test accuracy, %"
        assert seen.page.locator("#curves .label").count() == 3


def test_results_are_filtered_by_key(opened: Open, variants: Path, report: Path) -> None:
    expect(opened(report).page.get_by_text("Results with")).to_be_hidden()  # nothing to choose
    seen = opened(variants, NARROW)
    page = seen.page
    assert page.locator("select[data-key]").count() == 2
    page.locator("select[data-key=learning_rate]").select_option(label="0.5")
    expect(page.locator("#filtered")).to_have_text("2 of 4 results are shown")
    expect(page.locator("#said")).to_contain_text("2 of 4 results are shown.")
    expect(page.locator("#curves .stage .line")).to_have_count(2)
    rows = page.locator("#final table[data-setting] tbody tr:visible")
    for row in rows.all():
        assert "0.1" not in row.locator("th").inner_text()
    page.get_by_role("combobox", name="algorithm").select_option(label="fedavg")
    expect(page.locator("#curves .stage .line")).to_have_count(1)
    again = opened(page.evaluate("location.href")).page
    expect(again.locator("#filtered")).to_have_text("1 of 4 results are shown")
    assert seen.complaints == []


@pytest.mark.quick("report-1")
@pytest.mark.parametrize(("what", "plots"), [("report", 1), ("settings_report", 2)])
def test_pictures_and_numbers_are_saved(
    opened: Open, request: pytest.FixtureRequest, what: str, plots: int, tmp_path: Path
) -> None:
    seen = opened(request.getfixturevalue(what))
    page = seen.page
    page.locator("#seeds").check()
    page.get_by_role("checkbox", name="FedAvg").uncheck()
    drag(page, 0.3, 1.0)
    saved = {}
    for kind in ("svg", "png", "csv"):
        with page.expect_download() as download:
            page.get_by_role("button", name=kind.upper()).click()
        assert download.value.suggested_filename == f"accuracy-time.{kind}"
        download.value.save_as(tmp_path / kind)
        saved[kind] = (tmp_path / kind).read_bytes()
    drawing = ElementTree.fromstring(saved["svg"])
    texts = ["".join(element.itertext()) for element in drawing.iter() if "text" in element.tag]
    assert texts[:2] == ["Test accuracy, %", "FAVANO"]
    assert "FedAvg" not in texts
    assert b"class=" not in saved["svg"]  # it needs no style sheet
    assert saved["svg"].count(b"<clipPath") == plots
    assert saved["png"][:8] == b"\x89PNG\r\n\x1a\n"
    width = int.from_bytes(saved["png"][16:20])
    assert width == 2 * float(drawing.attrib["width"])
    rows = list(csv.DictReader(io.StringIO(saved["csv"].decode(), newline="")))
    assert {row["seed"] for row in rows} >= {"mean", "0", "1"}
    assert {float(row["time"]) for row in rows} == {10.0, 20.0}  # the range alone
    assert len({row["setting"] for row in rows}) == plots
    assert seen.complaints == []


def test_a_name_is_no_formula_in_a_spreadsheet(opened: Open, tmp_path: Path, write: Writer) -> None:
    name = '=HYPERLINK("x"),1'
    write(tmp_path / "r", {"algorithm": name}, [[0.1, 0.2]], "complete")
    write_page(collect([tmp_path / "r"]), tmp_path / "page.html", "Formula")
    page = opened(tmp_path / "page.html").page
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV").click()
    (first, *_) = csv.DictReader(io.StringIO(Path(download.value.path()).read_text(), newline=""))
    assert first["method"] == f"'{name}"
    assert list(map(float, (first["accuracy"], first["time"]))) == [10.0, 0.0]
