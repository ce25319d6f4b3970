"""The page of runs that go on: what it serves, to whom, and what strangers get."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from favano.page_server import ServedPage, page_server
from favano.report import live
from favano.report.live import LivePage, live_server
from favano.results import Result, collect


@pytest.fixture
def address(compared: Path) -> Iterator[str]:
    page = LivePage(lambda: collect([compared]), "Four", "there/report.html")
    with live_server(page) as place:
        yield place


def ask(
    address: str, path: str = "", method: str = "GET", **headers: str
) -> tuple[int, dict[str, str], str]:
    """Status, headers and content; other headers are as a browser sends them."""
    url = urlsplit(address)
    connection = HTTPConnection(url.hostname or "", url.port, timeout=60)
    connection.putrequest(method, path or url.path, skip_host=True)
    for name, value in {"Host": url.netloc, **headers}.items():
        if value:
            connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    content = answer.read().decode(errors="replace")
    connection.close()
    return answer.status, dict(answer.getheaders()), content


def test_a_page_and_its_data_are_served_and_say_where_the_report_will_be(address: str) -> None:
    code, headers, text = ask(address)
    assert (code, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert 'data-report="there/report.html"' in text
    assert "connect-src 'self'" in text
    code, headers, again = ask(address, f"{urlsplit(address).path}page.json")
    assert (code, headers["Content-Type"]) == (200, "application/json")
    assert json.loads(again)["page"] == text


def test_strangers_get_nothing(address: str, compared: Path) -> None:
    url = urlsplit(address)
    assert url.hostname == "127.0.0.1"
    paths = [
        "/", "/page.json", "/report.html", f"{url.path}history.csv", f"{url.path}../page.json",
        f"{url.path}favano/history.csv", f"{url.path}?x=1", str(compared),
        "/../../../../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", url.path.upper() + "x",
        f"{url.path}page.json/", url.path[:-1], "*", "http://evil.example/",
    ]  # fmt: skip
    for path in paths:
        code, _, text = ask(address, path)
        assert (code, text) == (404, "no such page\n"), path
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "HEAD", "PATCH", "TRACE", "CONNECT"):
        assert ask(address, method=method)[0] == 501, method


@pytest.mark.parametrize(
    "host", ["", "evil.example", "evil.example:80", "127.0.0.1.evil.example", "0.0.0.0", "[::2]"]
)
def test_a_name_that_was_made_to_point_here_gets_nothing(address: str, host: str) -> None:
    code, headers, text = ask(address, Host=host, Origin="http://evil.example")
    assert (code, text) == (403, "asked for by another name\n")
    assert not any(name.lower().startswith("access-control") for name in headers)


def test_other_origins_may_not_read_the_page(address: str) -> None:
    _, headers, _ = ask(address, Origin="http://evil.example")
    assert not any(name.lower().startswith("access-control") for name in headers)
    assert headers["X-Frame-Options"] == "DENY"
    for name in ("localhost:1", "[::1]:1", "127.0.0.1"):  # as through a tunnel
        assert ask(address, Host=name)[0] == 200


def test_the_address_cannot_be_guessed(compared: Path) -> None:
    page = LivePage(lambda: collect([compared]), "Four", "r")
    with live_server(page) as one, live_server(page) as other:
        assert len({urlsplit(one).path, urlsplit(other).path}) == 2
        assert len(urlsplit(one).path) > 20
    url = urlsplit(one)
    with pytest.raises(ConnectionError):
        socket.create_connection((url.hostname, url.port))


@pytest.mark.machine
def test_those_who_ask_for_nothing_do_not_take_all_threads() -> None:
    """Idle visitors are answered up to a number, and the rest is sent away at once."""
    with page_server("127.0.0.1", 0, {"/": ServedPage("text/plain", lambda: b"here")}) as port:
        idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(32)]
        with socket.create_connection(("127.0.0.1", port), timeout=60) as last:
            assert last.recv(1) == b""  # closed
        for visitor in idle:
            visitor.close()
        while True:  # until the threads of those who left have ended
            try:
                assert ask(f"http://127.0.0.1:{port}/")[2] == "here"
                break
            except ConnectionError:
                continue


@pytest.mark.parametrize(("cost", "most"), [(0.0, 11), (0.02, 11), (0.2, 3)])
def test_however_many_ask_the_page_takes_little_of_the_time(
    cost: float, most: int, compared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, made = [100.0], []

    def results() -> list[Result]:
        made.append(now[0])
        now[0] += cost  # seconds
        return collect([compared])

    monkeypatch.setattr(live, "monotonic", lambda: now[0])
    page = LivePage(results, "Four", "r")
    for _ in range(100):
        page.text()
        now[0] += 0.1
    assert most - 2 <= len(made) <= most


def test_before_the_first_evaluation_and_after_an_error_there_is_a_page(compared: Path) -> None:
    found: list[Result] = []
    page = LivePage(lambda: found, "Four", "r")
    assert "The runs are being prepared" in page.text()
    found += collect([compared])
    assert "<h1>Four</h1>" in page.text()

    def broken() -> list[Result]:
        raise ZeroDivisionError("by zero")

    assert "by zero" in LivePage(broken, "Four", "r").text()
