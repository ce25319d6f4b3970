"""Who may talk to the SuperLink: nodes from outside, the server with its secret from inside."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator, Mapping
from math import inf, nan
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import httpx
import pytest

pytest.importorskip("flwr")

from fastapi.routing import iter_route_contexts
from flwr.proto.fleet_pb2 import PushMessagesRequest
from flwr.proto.message_pb2 import Message, Metadata, ObjectTree
from flwr.proto.node_pb2 import Node
from flwr.superlink.main import create_app

from favano.flower.door import MOST_BYTES, guarded, open_routes
from favano.flower.private import SECRET_HEADER
from tests.flower.attacks import ATTACKS, Outsider, Target, is_refused, outsider, status_of
from tests.flower.federation import federation, free_port, wait_for
from tests.flower.loopback import FAVANO, Loopback, joined

INSIDE, SECRET = 7000, "5ec4e7"
OPEN = open_routes(create_app())
PULL = "/v1/fleet/pull-messages"


def all_routes() -> list[tuple[str, str]]:
    """Method and path of all routes of a SuperLink, as Flower makes it."""
    contexts = list(iter_route_contexts(create_app().routes))
    assert all(context.path and context.methods for context in contexts)
    return sorted((method, route.path) for route in contexts for method in route.methods)  # type: ignore[union-attr, misc]


def answer(
    headers: Mapping[str, str] = MappingProxyType({}),
    *,
    kind: str = "http",
    method: str = "POST",
    path: str = PULL,
    port: int = 8000,
    body: bytes = b"",
) -> tuple[int, list[dict[str, Any]]]:
    """The status of a request at the door, 200 if it went through, and what the app was given."""
    through: list[dict[str, Any]] = []
    sent: list[dict[str, Any]] = []
    events: list[dict[str, Any]] = [
        {"type": "http.request", "body": body[:100], "more_body": True},
        {"type": "http.request", "body": body[100:], "more_body": False},
        {"type": "http.disconnect"},
    ]

    async def app(scope: Any, receive: Any, send: Any) -> None:
        told = [await receive()]
        while told[-1].get("more_body"):
            told.append(await receive())
        parts = [event.get("body", b"") for event in told]
        assert b"".join(parts) == body, "the app reads what was sent"
        through.append(scope)
        await send({"type": "http.response.start", "status": 200})

    async def receive() -> dict[str, Any]:
        return {"type": f"{kind}.connect"} if kind != "http" else events.pop(0)

    async def send(event: Any) -> None:
        sent.append(event)

    pairs = [(name.encode(), text.encode()) for name, text in headers.items()]
    place = {"server": ("127.0.0.1", port), "path": path, "method": method}
    door = guarded(app, OPEN, INSIDE, SECRET)
    asyncio.run(door({"type": kind, "headers": pairs, **place}, receive, send))
    return sent[0].get("status", 0), through


def test_only_what_nodes_need_is_open() -> None:
    assert {path for _, path in OPEN if not path.startswith("/v1/fleet/")} == {"/health"}
    assert {method for method, path in OPEN if path != "/health"} == {"POST"}
    assert len(OPEN) == 14
    closed = [path for _, path in all_routes() if (_, path) not in OPEN]
    assert {path.split("/")[1] for path in closed} >= {"v1", "docs", "openapi.json"}
    assert sum(path.startswith(("/v1/control/", "/v1/runtime/")) for path in closed) > 60


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/control/list-nodes"),
        ("POST", "/v1/runtime/acquire-task"),
        ("POST", "/v1/fleet/../control/list-nodes"),
        ("POST", "/v1/fleet/%2e%2e/control/list-nodes"),
        ("POST", "//v1/fleet/pull-messages"),
        ("POST", "/v1/fleet//pull-messages"),
        ("POST", "/v1/fleet/pull-messages/"),
        ("POST", "/V1/fleet/pull-messages"),
        ("POST", "/v1/fleet/"),
        ("POST", "/v1/fleet/pull-messages?"),
        ("POST", "https://localhost/v1/fleet/pull-messages"),
        ("POST", ""),
        ("GET", "/v1/fleet/pull-messages"),
        ("HEAD", "/v1/fleet/pull-messages"),
        ("OPTIONS", "/v1/fleet/pull-messages"),
        ("post", "/v1/fleet/pull-messages"),
        ("POST", "/health"),
        ("GET", "/health/"),
        ("GET", "/docs"),
        ("GET", "/openapi.json"),
    ],
)
def test_nothing_else_is_answered_from_outside(method: str, path: str) -> None:
    """Nor with the secret, which only opens the other listener."""
    for headers in ({}, {SECRET_HEADER: SECRET}):
        assert answer(headers, method=method, path=path) == (404, [])


def test_nodes_are_let_through() -> None:
    status, (scope,) = answer({"content-length": "10"})
    assert (status, scope["path"]) == (200, PULL)
    assert answer(method="GET", path="/health")[0] == 200


def test_the_app_is_not_told_a_host_that_could_be_read_as_a_path() -> None:
    _, (scope,) = answer({"host": "x/v1/runtime/pull-object?", "content-type": "a"})
    assert scope["headers"] == [(b"content-type", b"a")]


@pytest.mark.parametrize("path", ["/v1/control/list-nodes", PULL, "/health", "/nothing"])
@pytest.mark.parametrize("given", [{}, {SECRET_HEADER: ""}, {SECRET_HEADER: f"{SECRET} "}])
def test_inside_everything_needs_the_secret(path: str, given: dict[str, str]) -> None:
    assert answer(given, path=path, port=INSIDE) == (401, [])
    assert answer({SECRET_HEADER: SECRET}, path=path, port=INSIDE)[0] == 200


@pytest.mark.parametrize("port", [8000, INSIDE])
def test_there_are_no_websockets(port: int) -> None:
    assert answer({SECRET_HEADER: SECRET}, kind="websocket", port=port) == (0, [])


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content-length": str(MOST_BYTES)}, 200),
        ({"content-length": str(MOST_BYTES + 1)}, 413),
        ({"content-length": "many"}, 413),
        ({"transfer-encoding": "chunked"}, 413),
    ],
)
def test_a_request_from_outside_says_that_it_is_short(headers: dict[str, str], status: int) -> None:
    """Flower reads a request before it looks who sent it."""
    assert answer(headers, path="/v1/fleet/push-object")[0] == status


@pytest.mark.parametrize("path", sorted(path for _, path in OPEN if "push-object" not in path))
def test_only_parts_of_models_are_long(path: str) -> None:
    """A reply with 20,000 names of parts in a megabyte held everybody's for 40 seconds."""
    method = "GET" if path == "/health" else "POST"
    body = pushed() if "push-messages" in path else b""
    for length, status in ((2**15, 200), (2**15 + 1, 413)):
        reply, _ = answer({"content-length": str(length)}, method=method, path=path, body=body)
        assert reply == status


def pushed(parts: str = "a" * 64, runtime: float = 0.5, **head: Any) -> bytes:
    """A request of node 7 to push a message."""
    usual = {"message_id": "a" * 64, "src_node_id": 7, "dst_node_id": 1, "message_type": "train"}
    times = {"created_at": 1.8e9, "ttl": 60.0}
    given = {**usual, **times, "reply_to_message_id": "b" * 64, **head}
    request = PushMessagesRequest(
        node=Node(node_id=7),
        messages_list=[Message(metadata=Metadata(**given))],
        message_object_trees=[ObjectTree(object_id=parts)],
        clientapp_runtime_list=[runtime],
    )
    return bytes(request.SerializeToString())


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (pushed(), 200),
        (b"", 400),
        (pushed(reply_to_message_id=""), 400),  # a call, to the server
        (pushed(reply_to_message_id="", src_node_id=1, dst_node_id=8), 400),  # or to another node
        (pushed(src_node_id=8), 400),  # in the name of another
        (pushed() + pushed(), 400),  # Flower looks at the first alone
        (pushed(ttl=nan), 400),  # the server's next questions for replies would be errors
        (pushed(created_at=nan), 400),
        (pushed(ttl=inf), 400),
        (pushed(runtime=nan), 400),
        (pushed(parts="c" * 64), 400),  # parts of anything, which nobody would remove
        (b"\xff\xff\xff", 400),
    ],
)
def test_a_node_pushes_replies_of_its_own_and_nothing_else(body: bytes, status: int) -> None:
    """Flower believes what a message says of itself, and takes calls from anybody to anybody."""
    assert answer(path="/v1/fleet/push-messages", body=body)[0] == status
    assert answer({SECRET_HEADER: SECRET}, port=INSIDE, path=PULL, body=body)[0] == 200


class Served(NamedTuple):
    """A federation that was started as the guide says."""

    one: Loopback
    outside: Target
    inside: Target
    secret: str


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with keys that other machines can reach, and one node."""
    folder = tmp_path_factory.mktemp("served")
    with federation(folder) as lab:
        keys = folder / "keys"
        made = lab.start(*FAVANO, "keys", str(keys), "--host", "example.org", "--node", "lab")
        assert made.wait() == 0
        loopback = Loopback(lab, keys=keys, host="0.0.0.0", rounds=10_000)
        loopback.serve()
        wait_for(lambda: "nodes join at" in loopback.told, "the server")
        files = {"root-certificate": "authority.crt", "key": "lab", "operator": "operator.yaml"}
        words = [word for flag, name in files.items() for word in (f"--{flag}", str(keys / name))]
        loopback.join(0, *words)
        wait_for(lambda: any(loopback.rounds()[1:]), "the first round")
        (process,) = lab.alive("favano.flower.door")
        command = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
        inside = int(command[command.index(b"favano.flower.door") + 2])
        secret = (folder / "superlink.secret").read_text()
        assert secret.encode() not in b"".join(command)
        authority = keys / "authority.crt"
        yield Served(
            loopback,
            Target("127.0.0.1", lab.port, authority),
            Target("127.0.0.1", inside, authority),
            secret,
        )


@pytest.mark.machine
def test_every_route_of_the_running_superlink_is_closed_from_outside(served: Served) -> None:
    """The table is that of the running app, asked from inside, and of Flower's own making."""
    context = ssl.create_default_context(cafile=str(served.inside.certificate))
    address = f"https://127.0.0.1:{served.inside.port}/openapi.json"
    told = httpx.get(address, headers={SECRET_HEADER: served.secret}, verify=context).json()
    running = {(way.upper(), path) for path, ways in told["paths"].items() for way in ways}
    routes = set(all_routes())
    assert running <= routes
    assert len(running) > 75
    for method, path in sorted(routes):
        for way in {method, "GET", "HEAD", "POST", "OPTIONS"}:
            status = status_of(served.outside, way, path)
            if path == "/health" and way in ("GET", "HEAD"):
                assert status == 200
            elif path.startswith("/v1/fleet/") and way == "POST":
                assert status in (400, 401), path  # no reply at all, or Flower asks for a signature
            else:
                assert status == 404, path
        assert status_of(served.inside, method, path) == 401, path


@pytest.mark.machine
@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("https://localhost/v1/control/list-nodes", ()),
        ("/v1/control/list%2dnodes", ()),
        ("/v1/fleet/..%2fcontrol/list-nodes", ()),
        ("/v1/fleet/../control/list-nodes", ()),
        ("//v1/control/list-nodes", ()),
        ("/v1/fleet/pull-messages/../../control/list-nodes", ()),
        ("/v1/control/list-nodes", ("X-Forwarded-For: 127.0.0.1", "X-Forwarded-Port: 1")),
        ("/v1/control/list-nodes", ("X-HTTP-Method-Override: GET", "X-Original-URL: /health")),
        ("/v1/fleet/pull-object", ("Host: x/v1/runtime/pull-object?",)),
        ("/health", ()),
    ],
)
def test_tricks_with_paths_and_headers_open_nothing(
    served: Served, path: str, headers: tuple[str, ...]
) -> None:
    assert status_of(served.outside, "POST", path, b"", *headers) in (401, 404)


@pytest.mark.machine
@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("place", ["outside", "inside"])
def test_an_outsider_is_no_administrator(served: Served, place: str, attack: str) -> None:
    """He has the public certificate and can reach the port; others of this machine both ports."""
    target = served.outside if place == "outside" else served.inside
    with outsider(target) as stranger, pytest.raises(httpx.HTTPStatusError) as error:
        ATTACKS[attack](stranger)
    assert is_refused(error.value)


@pytest.mark.machine
def test_the_federation_has_noticed_nothing(served: Served) -> None:
    """After all these attacks, the one honest node trains on."""
    before = served.one.rounds()[-1]
    wait_for(lambda: served.one.rounds()[-1] > before + 1, "two more rounds")
    assert len(joined(served.one.told)) == 1
    with outsider(served.inside, {SECRET_HEADER: served.secret}) as insider:
        assert len(Outsider.list_nodes(insider)) == 1
    secret = served.one.lab.folder / "superlink.secret"
    database = served.one.lab.folder / "superlink.db"
    assert {path.stat().st_mode & 0o777 for path in (secret, database)} == {0o600}


def test_two_superlinks_have_two_secrets(tmp_path: Path) -> None:
    from favano.flower.superlink import SuperLink

    links = [SuperLink(tmp_path, port=free_port()) for _ in range(2)]
    assert links[0].secret != links[1].secret
    assert links[0].secret not in repr(links[0])
    assert len(links[0].secret) == 64
