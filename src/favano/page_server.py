"""A read-only web server in a thread of its own: some pages, each made when it is asked for."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import socket
from typing import Final, NamedTuple

LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
_MOST_VISITORS = 32  # at the same time, since each takes a thread


class ServedPage(NamedTuple):
    """What is sent for one address."""

    kind: str  # as in the header Content-Type
    content: Callable[[], bytes]
    policy: str = "default-src 'none'"  # as in the header Content-Security-Policy


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    visitors: threading.BoundedSemaphore

    def process_request(
        self, request: socket | tuple[bytes, socket], client_address: object
    ) -> None:
        """Answer in a thread; who comes when there are too many is sent away."""
        if self.visitors.acquire(blocking=False):
            ThreadingHTTPServer.process_request(self, request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(
        self, request: socket | tuple[bytes, socket], client_address: object
    ) -> None:
        """Answer one visitor."""
        try:
            ThreadingHTTPServer.process_request_thread(self, request, client_address)
        finally:
            self.visitors.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """Who goes away before he is answered is nobody's trouble; other errors are shown."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            traceback.print_exc()


@contextmanager
def page_server(host: str, port: int, pages: Mapping[str, ServedPage]) -> Iterator[int]:
    """Serve the pages while the block lasts; yields its port, which is free if 0 is given.

    On this machine alone, it answers only who asks for this machine by its name: a page of a
    stranger in the same browser, whose name was made to point here, gets nothing.
    """

    class Handler(BaseHTTPRequestHandler):
        """Answers these addresses by GET, and nothing else."""

        timeout = 10.0  # seconds: nobody holds a thread
        server_version, sys_version = "favano", ""

        def do_GET(self) -> None:
            """A page."""
            page = pages.get(self.path)
            if host in LOOPBACK and _name(self.headers.get("Host", "")) not in LOOPBACK:
                self._send(403, ServedPage("text/plain", lambda: b"asked for by another name\n"))
            elif page is None:
                self._send(404, ServedPage("text/plain", lambda: b"no such page\n"))
            else:
                self._send(200, page)

        def _send(self, code: int, page: ServedPage) -> None:
            content = page.content()
            self.send_response(code)
            for name, value in (
                ("Content-Type", page.kind),
                ("Content-Length", str(len(content))),
                ("Content-Security-Policy", page.policy),
                ("Cache-Control", "no-store"),
                ("X-Content-Type-Options", "nosniff"),
                ("X-Frame-Options", "DENY"),
                ("Referrer-Policy", "no-referrer"),
            ):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Nobody wants to know."""

    server = _Server((host, port), Handler)
    server.visitors = threading.BoundedSemaphore(_MOST_VISITORS)
    thread = threading.Thread(target=server.serve_forever, name="pages", daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _name(host: str) -> str:
    """The name in a header `Host`, without its port.

    >>> _name("localhost:80"), _name("[::1]:80"), _name("evil.example")
    ('localhost', '::1', 'evil.example')
    """
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]
