"""The status page of a federation: read-only, and on this machine unless told otherwise."""

from __future__ import annotations

import json
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from math import isfinite

from favano.errors import BadInput

Status = Callable[[], dict[str, object]]

_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
        "connect-src 'self'"
    ),
}


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Who goes away before he is answered is nobody's trouble; other errors are shown."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            traceback.print_exc()


@contextmanager
def status_page(host: str, port: int, status: Status) -> Iterator[int]:
    """Serve the page while the block lasts; yields its port, which is free if 0 is given."""
    page = files("favano.flower").joinpath("status.html").read_bytes()

    class Handler(BaseHTTPRequestHandler):
        """Answers two addresses, and nothing else."""

        timeout = 10.0  # seconds: nobody holds a thread

        def do_GET(self) -> None:
            """The page, or the numbers on it."""
            if self.path == "/":
                self._send(200, "text/html; charset=utf-8", page)
            elif self.path == "/status.json":
                self._send(200, "application/json", _document(status()))
            else:
                self._send(404, "text/plain", b"no such page\n")

        def _send(self, code: int, kind: str, content: bytes) -> None:
            self.send_response(code)
            headers = {"Content-Type": kind, "Content-Length": str(len(content)), **_HEADERS}
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Nobody wants to know."""

    try:
        server = _Server((host, port), Handler)
    except OSError as error:
        rule = f"cannot be used at {host}: {error.strerror or error}"
        raise BadInput("status_port", port, rule) from error
    thread = threading.Thread(target=server.serve_forever, name="status", daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


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
