"""The status page of a federation: read-only, and on this machine unless told otherwise."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.resources import files
from math import isfinite

from favano.errors import BadInput
from favano.page_server import ServedPage, page_server

Status = Callable[[], dict[str, object]]

_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'"
)


@contextmanager
def status_page(host: str, port: int, status: Status) -> Iterator[int]:
    """Serve the page while the block lasts; yields its port, which is free if 0 is given."""
    page = files("favano.flower").joinpath("status.html").read_bytes()
    pages = {
        "/": ServedPage("text/html; charset=utf-8", lambda: page, _POLICY),
        "/status.json": ServedPage("application/json", lambda: _document(status())),
    }
    with ExitStack() as served:
        try:
            there = served.enter_context(page_server(host, port, pages))
        except OSError as error:
            rule = f"cannot be used at {host}: {error.strerror or error}"
            raise BadInput("status_port", port, rule) from error
        yield there


def _document(status: dict[str, object]) -> bytes:
    return json.dumps(_finite(status)).encode()


def _finite(value: object) -> object:
    """JSON has neither NaN nor infinity."""
    if isinstance(value, float) and not isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(key): _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
