"""The status page, asked and looked at; and what it shows."""

from __future__ import annotations

import json
import shutil
import socket
import struct
import threading
from collections.abc import Iterator
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

pytest.importorskip("flwr")

from playwright.sync_api import expect, sync_playwright

from favano.errors import BadInput
from favano.flower.status import status_page
from tests.flower.federations import PACES, grid_of, lived, strategy_of

NAMES = ("chromium", "chromium-browser", "google-chrome")
PROGRAM = next((path for name in NAMES if (path := shutil.which(name))), None)


def status() -> dict[str, object]:
    """That of a federation in virtual time."""
    grid, strategy = grid_of(), strategy_of(live=True, influence=3.0)
    grid.nodes[102].online = [(0.0, 70.0)]
    strategy.metrics = {"accuracy": 0.625}
    lived(strategy, grid, rounds=14)
    return strategy.status


@pytest.fixture(scope="module")
def shown() -> dict[str, object]:
    return status()


@pytest.fixture
def address(shown: dict[str, object]) -> Iterator[str]:
    with status_page("127.0.0.1", 0, lambda: shown) as port:
        yield f"http://127.0.0.1:{port}"


def test_the_board_shows_the_federation(shown: dict[str, object]) -> None:
    assert shown["method"] == "FAVANO"
    assert shown["places"] == len(PACES)
    assert shown["rounds"] == 14
    assert shown["influence"] == 3.0
    clients = shown["clients"]
    assert isinstance(clients, list)
    assert [client["now"].partition(",")[0] for client in clients] == ["trains", "trains", "away"]
    assert sum(client["weight"] for client in clients) == pytest.approx(1.0)
    assert sum(client["steps"] for client in clients) == shown["steps"]


def test_who_goes_away_before_he_is_answered_leaves_nothing_in_the_log(
    capfd: pytest.CaptureFixture[str],
) -> None:
    asked = threading.Semaphore(0)

    def slow() -> dict[str, object]:
        asked.release()
        gone.wait(60)
        return {"large": "x" * 10**7}

    gone = threading.Event()
    with status_page("127.0.0.1", 0, slow) as port:
        with socket.create_connection(("127.0.0.1", port)) as visitor:
            visitor.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            visitor.sendall(b"GET /status.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert asked.acquire(timeout=60)
        answering = [thread for thread in threading.enumerate() if "process_request" in thread.name]
        assert answering
        gone.set()
        for thread in answering:
            thread.join()
    assert capfd.readouterr().err == ""


def test_the_page_can_only_be_read(address: str) -> None:
    with urlopen(address) as answer:
        assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")
        assert b"<title>Federation</title>" in answer.read()
    with urlopen(f"{address}/status.json") as answer:
        assert json.load(answer)["method"] == "FAVANO"
    with pytest.raises(HTTPError, match="404"):
        urlopen(f"{address}/../../etc/passwd")
    with pytest.raises(HTTPError, match="501"):
        urlopen(Request(address, data=b"stop", method="POST"))


def test_numbers_that_json_lacks_are_left_out() -> None:
    with (
        status_page("127.0.0.1", 0, lambda: {"a": [float("nan"), 1.0]}) as port,
        urlopen(f"http://127.0.0.1:{port}/status.json") as answer,
    ):
        assert json.load(answer) == {"a": [None, 1.0]}


def test_a_port_that_is_in_use_is_one_sentence() -> None:
    with (
        status_page("127.0.0.1", 0, dict) as port,
        pytest.raises(BadInput, match=f"status_port={port}: cannot be used at 127.0.0.1: Address"),
        status_page("127.0.0.1", port, dict),
    ):
        pass


def test_a_browser_shows_it(address: str) -> None:
    if PROGRAM is None:
        pytest.skip("no Chromium on this machine")
    said: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=PROGRAM, timeout=600_000)
        page = browser.new_page(viewport={"width": 1100, "height": 500})
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(address)
        expect(page.get_by_role("heading")).to_have_text("FAVANO", timeout=600_000)
        assert page.locator("tbody tr").count() == 3
        assert "0.625" in page.locator("dl").inner_text()
        assert "3 × median" in page.locator("dl").inner_text()
        assert page.locator("tbody tr").nth(2).locator("td").nth(1).inner_text() == "away"
        wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
        page.set_viewport_size({"width": 390, "height": 800})
        assert not page.evaluate(wide)
        browser.close()
    assert [text for text in said if "favicon" not in text] == []
