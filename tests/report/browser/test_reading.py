"""The page is clicked, typed at and pointed at."""

from __future__ import annotations

import json
import re
from pathlib import Path

from playwright.sync_api import Page, expect

from favano.report import write_page
from favano.results import collect
from tests.report import test_other_metrics as others
from tests.report.conftest import Writer, add_participation, add_served

from .conftest import Open


def axis_title(page: Page) -> str:
    return str(page.locator("#curves .title").first.text_content())


def test_it_renders_in_silence_and_asks_for_nothing(opened: Open, report: Path) -> None:
    seen = opened(report)
    assert seen.complaints == []
    assert seen.requests == [report.as_uri()]
    assert seen.page.locator("figure.chart svg").count() == 5
    assert seen.page.locator("#curves .line[d^=M]").count() >= 3
    assert seen.page.locator("#curves .label").all_text_contents() == [
        "FAVANO",
        "FedAvg",
        "FedBuff",
    ]


def test_axis_by_mouse(opened: Open, report: Path) -> None:
    page = opened(report).page
    assert axis_title(page) == "simulated time"
    before = page.locator("#curves .lines").inner_html()
    page.get_by_role("radio", name="bits").click()
    assert axis_title(page) == "bits sent, up and down"
    assert "4G" in page.locator("#curves .axes text").all_text_contents()
    expect(page.locator("#said")).to_have_text(
        "The plot now shows Test accuracy, % against bits sent, up and down."
    )
    page.get_by_role("checkbox", name="logarithmic").click()
    assert axis_title(page) == "bits sent, up and down, logarithmic"
    assert page.locator("#curves .lines").inner_html() != before


def test_axis_and_measure_by_keyboard(opened: Open, report: Path) -> None:
    page = opened(report).page
    page.get_by_role("radio", name="accuracy").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#measure-name").inner_text() == "Test loss"
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    assert axis_title(page) == "server steps"
    expect(page.locator("#said")).to_have_text("The plot now shows Test loss against server steps.")


def test_every_measure_can_be_drawn_on_every_axis(opened: Open, report: Path) -> None:
    seen = opened(report)
    for measure in seen.page.locator("input[name=measure]").all():
        measure.check(force=True)
        for axis in seen.page.locator("input[name=axis]").all():
            axis.check(force=True)
            assert "NaN" not in seen.page.locator("#curves .stage").inner_html()
    assert seen.complaints == []


def test_values_are_read_by_keyboard(opened: Open, report: Path) -> None:
    page = opened(report).page
    slider = page.get_by_role("slider", name=re.compile("Test accuracy"))
    slider.focus()
    page.keyboard.press("ArrowLeft")
    spoken = "simulated time 10: FedBuff 90.0 % (ended at 10), FAVANO 60.0 % ± 0.0"
    text = str(slider.get_attribute("aria-valuetext"))
    assert text.startswith(spoken.replace(" (ended at 10)", ""))
    expect(page.locator("#curves .readout")).to_be_visible()
    page.keyboard.press("ArrowRight")
    assert "FedBuff 90.0 % (ended at 10)" in str(slider.get_attribute("aria-valuetext"))


def test_values_are_read_by_pointer(opened: Open, report: Path) -> None:
    page = opened(report).page
    stage = page.locator("#clients .stage").nth(1)
    stage.hover(position={"x": 45, "y": 100})
    readout = page.locator("#clients .readout").nth(1)
    assert readout.locator("p").first.inner_text() == "client 1, fast"
    assert "1.5 × 1/n" in readout.inner_text()
    page.locator("h1").hover()
    expect(readout).to_be_hidden()
    page.locator("#staleness .stage").first.hover()
    text = page.locator("#staleness .readout").first.inner_text()
    assert text.split("\n")[0] == "staleness 1"
    assert "20 % of all jobs (1)" in text


def test_a_chosen_reference_changes_the_differences(opened: Open, report: Path) -> None:
    page = opened(report).page
    cells = page.locator("#final td[data-column=difference]")
    assert cells.all_inner_texts() == ["reference", "−20.0 ± 14.1 (2)", "–", "–"]
    page.get_by_label("Differences against").select_option("FedAvg")
    assert cells.all_inner_texts() == ["+20.0 ± 14.1 (2)", "reference", "–", "–"]
    heading = page.locator("#final th[data-column=difference]")
    assert heading.inner_text() == "against FedAvg, points"
    expect(page.locator("#said")).to_have_text("Differences are now against FedAvg.")


def test_a_method_can_be_hidden(opened: Open, report: Path) -> None:
    page = opened(report).page
    page.get_by_role("checkbox", name="FedAvg").uncheck()
    assert page.locator("#curves .label").all_text_contents() == ["FAVANO", "FedBuff"]
    assert page.get_by_role("checkbox", name="QuAFL missing").is_disabled()


def test_settings_side_by_side(opened: Open, settings_report: Path) -> None:
    seen = opened(settings_report)
    page = seen.page
    assert page.locator("#curves figure svg").count() == 2
    assert (
        page.locator("#clients .setting:visible figcaption")
        .first.inner_text()
        .endswith("fast clients carry 40.0 % of the weight, fair is 33.3 %")
    )
    page.get_by_label("Clients and staleness of").select_option(label="split two-class")
    assert "80.0 %" in page.locator("#clients .setting:visible figcaption").first.inner_text()
    assert page.locator("#clients .setting:visible svg .dots").count() == 4
    page.get_by_label("Differences against").select_option("FedAvg")
    texts = page.locator("#final td[data-column=difference]").all_inner_texts()
    assert texts == ["+20.0 ± 0.0 (2)", "reference"] * 2
    assert seen.complaints == []


def test_a_command_is_copied(opened: Open, report: Path) -> None:
    page = opened(report).page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator("summary").first.click()
    page.get_by_role("button", name="Copy command of FAVANO").click()
    expect(page.locator("#said")).to_have_text("Copied.")
    assert page.evaluate("navigator.clipboard.readText()") == "favano run --algorithm favano"


def test_names_are_text(opened: Open, tmp_path: Path, write: Writer) -> None:
    evil = "<img src=x onerror=hacked=1></script><script>hacked=1</script>"
    for name, dataset in (("one", evil), ("two", "digits")):
        spec = {"algorithm": evil, "dataset": dataset}
        folder = write(tmp_path / "evil" / name, spec, [[0.1, 0.2, 0.3]], "complete")
        add_participation(folder)
    write_page(collect([tmp_path / "evil"]), tmp_path / "report.html", evil)
    seen = opened(tmp_path / "report.html")
    assert seen.page.title() == evil
    assert seen.page.locator("img").count() == 0
    assert seen.page.evaluate("typeof hacked") == "undefined"
    seen.page.locator("#curves .stage").first.hover()
    assert evil in seen.page.locator("#curves .readout").first.inner_text()
    assert seen.complaints == []


def test_whom_the_model_serves(opened: Open, compared: Path, tmp_path: Path) -> None:
    """A mark per client, a large one per speed, and values to point at."""
    add_served(compared / "favano", 0.9)
    add_served(compared / "fedavg", 0.7)
    write_page(collect([compared]), tmp_path / "page.html", "Served")
    seen = opened(tmp_path / "page.html")
    assert seen.complaints == []
    figures = seen.page.locator("#served figure")
    assert figures.count() == 2
    favano = figures.first
    assert favano.locator(".faint path").count() == 3
    assert favano.locator(".label").all_text_contents() == ["fast 90.0 %", "slow 65.0 %"]
    favano.locator(".reader").focus()
    seen.page.keyboard.press("Home")
    words = favano.locator(".readout").inner_text().split("\n")
    assert words[0] == "client 0, slow"
    assert "50.0 %" in words
    expect(favano.locator("svg")).to_have_attribute(
        "aria-label",
        re.compile(r"^accuracy, % of each client against its effective weight\. FAVANO"),
    )


def test_nobody_served_by_a_diverged_model(opened: Open, compared: Path, tmp_path: Path) -> None:
    add_served(compared / "favano")
    path = compared / "favano" / "summary.json"
    document = json.loads(path.read_text())
    document["served"]["score"] = [None, None, None]
    path.write_text(json.dumps(document))
    write_page(collect([compared]), tmp_path / "page.html", "Diverged")
    seen = opened(tmp_path / "page.html")
    assert seen.complaints == []
    assert seen.page.locator("#served .stage svg").count() == 1


def test_metrics_of_another_problem(opened: Open, tmp_path: Path) -> None:
    """Each has a button; a metric may be negative, and its unit is in the table."""
    others.write(tmp_path / "favano", "favano", [[2.0, 0.5], [2.5, 0.7]])
    others.write(tmp_path / "fedavg", "fedavg", [[2.0, 0.8], [2.0, 1.2]])
    write_page(collect([tmp_path]), tmp_path / "page.html", "Regression")
    seen = opened(tmp_path / "page.html")
    page = seen.page
    assert page.locator("#measure-name").inner_text() == "Test mae, kW"
    page.get_by_role("radio", name="r2").click()
    assert page.locator("#measure-name").inner_text() == "Test r2"
    assert "−2" in page.locator("#curves .axes text").all_text_contents()
    page.get_by_label("Differences against").select_option("FedAvg")
    expect(page.locator("th[data-column=difference]").first).to_have_text("against FedAvg, kW")
    assert seen.complaints == []
