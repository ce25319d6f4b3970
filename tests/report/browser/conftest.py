"""Pages in a browser. Without one these tests skip."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from favano.records import history_from_csv, history_to_csv
from favano.report import write_page
from favano.results import collect
from tests.report.conftest import Writer, add_participation, with_charts

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PROGRAM = next((path for name in NAMES if (path := shutil.which(name))), None)
REASON = "no Chromium on this machine; `make browser` installs it on Debian"

WIDE, NARROW = 1280, 390
PATIENCE = 600_000  # milliseconds: a busy machine may be slow, and that is no failure
Scheme = Literal["light", "dark"]


class Open(Protocol):
    """Opens a page in a window of its own, which the test closes when it ends."""

    def __call__(
        self,
        path: Path | str,
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
    if PROGRAM is None:
        pytest.skip(REASON)
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=PROGRAM, timeout=PATIENCE)
        yield chromium
        chromium.close()


@pytest.fixture
def opened(browser: Browser) -> Iterator[Open]:
    contexts = []

    def open_page(
        path: Path | str,
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
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        result = Opened(context.new_page())
        result.page.on("console", lambda message: result.complaints.append(message.text))
        result.page.on("pageerror", lambda error: result.complaints.append(str(error)))
        result.page.on("request", lambda request: result.requests.append(request.url))
        result.page.goto(path if isinstance(path, str) else path.as_uri())
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
def times_report(compared: Path, tmp_path: Path) -> Path:
    """Of clients that come and go, and whose energy is counted."""
    for name in ("favano", "fedavg"):
        (compared / name / "participation.json").write_text(json.dumps(with_charts()))
    path = compared / "favano" / "history.csv"
    rows = history_from_csv(path.read_text())
    path.write_text(history_to_csv([row._replace(energy=row.time**2) for row in rows]))
    path = tmp_path / "times.html"
    write_page(collect([compared]), path, "Clients over time")
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
