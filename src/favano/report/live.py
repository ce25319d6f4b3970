"""The page of runs that go on, served on this machine alone."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from html import escape
from math import inf
from threading import Lock
from time import monotonic
from typing import Final

from favano.page_server import ServedPage, page_server
from favano.report.page import render
from favano.report.reported_result import ReportedResult

_HOST: Final = "127.0.0.1"
_POLICY: Final = "frame-ancestors 'none'"  # the page has the rest, with digests of its script
_PERIOD = 1.0  # seconds for which a page is kept at least, however many ask for it
_SHARE = 0.05  # of the time, at most, is spent on making pages: runs are made in this process
_WAITING: Final = (
    '<!DOCTYPE html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="2">'
    "<title>favano</title><p>The runs are being prepared; this page looks again every two seconds."
)


class LivePage:
    """The page of the results so far, made at most once a second, and seldom if it takes long.

    Args:
        results: those so far; none before the first evaluation.
        title: of the page.
        report: where the report of the whole runs will be.
        target: as in `write_page`.
    """

    def __init__(
        self,
        results: Callable[[], Sequence[ReportedResult]],
        title: str,
        report: str,
        target: float | None = None,
    ) -> None:
        self._results, self._title, self._report, self._target = results, title, report, target
        self._lock, self._kept_until, self._text = Lock(), -inf, ""

    def text(self) -> str:
        """The page, which follows the runs by itself."""
        with self._lock:
            if (began := monotonic()) >= self._kept_until:
                try:
                    if not (results := self._results()):
                        return _WAITING
                    self._text = render(results, self._title, self._target, live=self._report)
                except Exception as error:  # the runs go on, whatever is wrong with their page
                    self._text = f"<!DOCTYPE html><title>favano</title><p>{escape(repr(error))}"
                now = monotonic()
                self._kept_until = now + max(_PERIOD, (now - began) / _SHARE)
            return self._text


@contextmanager
def live_server(page: LivePage) -> Iterator[str]:
    """Serve the page while the block lasts; yields its address.

    The address cannot be guessed, so that other users of this machine do not find the page.
    """
    place = f"/{secrets.token_urlsafe(16)}/"
    pages = {
        place: ServedPage("text/html; charset=utf-8", lambda: page.text().encode(), _POLICY),
        f"{place}page.json": ServedPage(
            "application/json", lambda: json.dumps({"page": page.text()}).encode()
        ),
    }
    with page_server(_HOST, 0, pages) as port:
        yield f"http://{_HOST}:{port}{place}"
