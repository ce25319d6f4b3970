"""The page in a browser: seen, clicked, typed at, printed, and checked for accessibility."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect, sync_playwright

from favano.report import collect, write_page

from .conftest import Writer, add_participation

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PROGRAM = next((path for name in NAMES if (path := shutil.which(name))), None)
pytestmark = pytest.mark.skipif(
    PROGRAM is None, reason="no Chromium on this machine; `make browser` installs it on Debian"
)

WIDE, NARROW = 1280, 390
Scheme = Literal["light", "dark"]


class Open(Protocol):
    """Opens a page in a window of its own, which the test closes when it ends."""

    def __call__(
        self,
        path: Path,
        width: int = WIDE,
        scheme: Scheme = "light",
        *,
        scripts: bool = True,
        still: bool = False,
    ) -> Opened: ...


@dataclass
class Opened:
    """A page, and what it said and asked for."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=PROGRAM)
        yield chromium
        chromium.close()


@pytest.fixture
def opened(browser: Browser) -> Iterator[Open]:
    contexts = []

    def open_page(
        path: Path,
        width: int = WIDE,
        scheme: Scheme = "light",
        *,
        scripts: bool = True,
        still: bool = False,
    ) -> Opened:
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=scheme,
            java_script_enabled=scripts,
            reduced_motion="reduce" if still else "no-preference",
        )
        contexts.append(context)
        result = Opened(context.new_page())
        result.page.on("console", lambda message: result.complaints.append(message.text))
        result.page.on("pageerror", lambda error: result.complaints.append(str(error)))
        result.page.on("request", lambda request: result.requests.append(request.url))
        result.page.goto(path.as_uri())
        return result

    yield open_page
    for context in contexts:
        context.close()


@pytest.fixture
def report(compared: Path, tmp_path: Path) -> Path:
    path = tmp_path / "report.html"
    write_page(collect([compared]), path, "Four algorithms")
    return path


@pytest.fixture
def settings_report(tmp_path: Path, write: Writer) -> Path:
    """Two methods in two settings; FAVANO gains ten points from one to the other."""
    for split, end in (("iid", 0.7), ("two-class", 0.6)):
        for name, loss in (("favano", 0.0), ("fedavg", 0.2)):
            folder = tmp_path / "columns" / split / name
            ends = [[0.1, 0.2, end - loss], [0.1, 0.3, end - loss]]
            write(folder, {"algorithm": name, "split": split}, ends, "complete")
            add_participation(folder, 0.4 if split == "iid" else 0.8)
    path = tmp_path / "report.html"
    write_page(collect([tmp_path / "columns"]), path, "Two settings")
    return path


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


@pytest.mark.parametrize("width", [320, NARROW, 768, WIDE])
def test_nothing_overflows(opened: Open, report: Path, settings_report: Path, width: int) -> None:
    for path in (report, settings_report):
        page = opened(path, width).page
        page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
        assert page.evaluate("document.documentElement.scrollWidth") <= width


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


@pytest.mark.parametrize(
    ("what", "width", "scheme"),
    [
        ("report", NARROW, "light"),
        ("report", WIDE, "dark"),
        ("settings_report", NARROW, "dark"),
        ("settings_report", WIDE, "light"),
    ],
)
def test_accessible(
    opened: Open, request: pytest.FixtureRequest, what: str, width: int, scheme: Scheme
) -> None:
    page = opened(request.getfixturevalue(what), width, scheme).page
    page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


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


def test_without_scripts_the_numbers_are_there(opened: Open, report: Path) -> None:
    page = opened(report, scripts=False).page
    assert page.locator("#final td[data-column=accuracy]").first.inner_text() == "75.0 ± 7.1"
    expect(page.locator("#reference")).to_be_hidden()
    expect(page.get_by_text("The plots need JavaScript")).to_be_visible()
