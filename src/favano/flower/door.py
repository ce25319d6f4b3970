"""The door of a SuperLink: nodes come in from outside, all else from inside and with a secret.

Flower's SuperLink answers nodes, administrators and servers on one port, and asks administrators
for nothing. Here it has two listeners. Outside, nodes find the calls that Flower has for them, and
a bare word of health; there is nothing else. Inside, on loopback, all of it is there for whoever
has the secret, which only the owner of the server's folder can read. Most names here are private
in Flower (`tests/flower/test_private.py`).

    python -m favano.flower.door FOLDER INSIDE_PORT ARGUMENTS OF flower-superlink
"""

from __future__ import annotations

import hmac
import json
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, MutableMapping
from math import isfinite
from pathlib import Path
from typing import Any, TypeAlias

import uvicorn
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from flwr.common.constant import NOOP_FLWR_AID
from flwr.proto.fleet_pb2 import PushMessagesRequest
from flwr.supercore.constant import NOOP_FEDERATION_ID, TaskType
from flwr.supercore.fab import Fab
from flwr.supercore.http_logging import get_uvicorn_log_config
from flwr.supercore.logger import console_handler
from flwr.superlink.cli.flower_superlink import (
    SuperLinkLifespan,
    _parse_superlink_lifespan_config,
)
from flwr.superlink.main import create_app
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from favano.flower.private import SECRET_HEADER, check_version
from favano.flower.superlink import APP, APP_FILE, SECRET, SIGNATURES

Scope: TypeAlias = MutableMapping[str, Any]
Event: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Event]]
Send: TypeAlias = Callable[[Event], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Coroutine[Any, Any, None]]

FLEET, HEALTH = "/v1/fleet/", "/health"
PUSH, UPLOAD = f"{FLEET}push-messages", f"{FLEET}push-object"
MOST_BYTES = 32 * 2**20  # of an upload; the parts of a model have 5 MiB
SHORT = 2**15  # bytes of any other request: names of 450 parts, each a row of the database


def open_routes(app: FastAPI) -> set[tuple[str, str]]:
    """What is answered from outside: method and path of each route that nodes need."""
    return {
        (method, context.path)
        for context in iter_route_contexts(app.routes)
        if context.path is not None and (context.path == HEALTH or context.path.startswith(FLEET))
        for method in context.methods or ()
    }


def guarded(
    app: Application, outside: Collection[tuple[str, str]], inside_port: int, secret: str
) -> Application:
    """The app behind its door.

    By which listener a request came is seen from the socket, and what it asks for from the path by
    which the app will route it: nothing is taken from what the client says about either.
    """

    async def door(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await app(scope, receive, send)
            return
        if scope["type"] != "http":
            await receive()
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = [pair for pair in scope["headers"] if pair[0] != b"host"]
        given = dict(headers)
        refusal = 0
        if scope["server"][1] == inside_port:
            named = given.get(SECRET_HEADER.encode(), b"")
            refusal = 0 if hmac.compare_digest(named, secret.encode()) else 401
        elif (scope["method"], scope["path"]) not in outside:
            refusal = 404
        elif not _is_short(given, MOST_BYTES if scope["path"] == UPLOAD else SHORT):
            refusal = 413
        elif scope["path"] == PUSH:
            body = await _body(receive)
            receive = _again(body, receive)
            refusal = 0 if is_own_reply(body) else 400
        if refusal:
            start = {"type": "http.response.start", "status": refusal}
            await send({**start, "headers": [(b"content-length", b"0"), (b"connection", b"close")]})
            await send({"type": "http.response.body", "body": b""})
            return
        await app({**scope, "headers": headers}, receive, send)

    return door


def _is_short(headers: Mapping[bytes, bytes], most: int) -> bool:
    """Whether a request says that it is short: Flower reads all of it before it asks from whom."""
    length = headers.get(b"content-length", b"0")
    return b"transfer-encoding" not in headers and length.isdigit() and int(length) <= most


def is_own_reply(body: bytes) -> bool:
    """Whether a request to push messages has one reply, in the name of its sender, and its parts.

    Flower asks who sends the request, and believes what its message says: a node could call other
    nodes, or the server, in the name of the SuperLink. A time that is NaN is kept as nothing, and
    then the server cannot be told of any reply. Parts under another name than that of the reply
    are taken again and again, and stay.
    """
    try:
        request = PushMessagesRequest.FromString(body)
    except DecodeError:
        return False
    if len(request.messages_list) != 1 or len(request.message_object_trees) != 1:
        return False
    head, parts = request.messages_list[0].metadata, request.message_object_trees[0]
    own = bool(head.reply_to_message_id) and head.src_node_id == request.node.node_id
    numbers = head.created_at, head.ttl, *request.clientapp_runtime_list
    return own and head.message_id == parts.object_id and all(map(isfinite, numbers))


async def _body(receive: Receive) -> bytes:
    """All of a request that is short."""
    body, more = b"", True
    while more:
        event = await receive()
        body += event.get("body", b"")
        more = event.get("more_body", False)
    return body


def _again(body: bytes, receive: Receive) -> Receive:
    """The events of a request whose body was read."""
    events: list[Event] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Event:
        return events.pop() if events else await receive()

    return again


def main() -> None:
    """Run a SuperLink behind its door until the process is told to end."""
    check_version()
    folder, inside_port = Path(sys.argv[1]), int(sys.argv[2])
    del sys.argv[1:3]
    os.umask(0o077)  # its database has everybody's models
    config = _parse_superlink_lifespan_config()
    app = create_app(config, SuperLinkLifespan)
    content = (folder / APP_FILE).read_bytes()
    app.state.linkstate_factory.state().store_app(
        Fab("", content, json.loads((folder / SIGNATURES).read_text())),
        federation_id=NOOP_FEDERATION_ID,
        app_id=APP,
        app_type=TaskType.SERVER_APP,
        added_by=NOOP_FLWR_AID,
    )
    secret = (folder / SECRET).read_text()
    server = uvicorn.Server(
        uvicorn.Config(
            guarded(app, open_routes(app), inside_port, secret),
            log_config=get_uvicorn_log_config(console_handler.level),
            ssl_keyfile=config.ssl_keyfile,
            ssl_certfile=config.ssl_certfile,
            proxy_headers=False,
            ws="none",
            lifespan="on",
        )
    )
    places = ((config.host, config.port), ("127.0.0.1", inside_port))
    server.run([_listener(*place) for place in places])


def _listener(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host, port))
    return listener


if __name__ == "__main__":
    main()
