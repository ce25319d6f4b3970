"""What an outsider tries: he can reach the port of the nodes, and has the public certificate.

He uses Flower's own clients and raw bytes, nothing of ours.
"""

from __future__ import annotations

import hashlib
import json
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from flwr.cli.build import build_fab_from_files
from flwr.proto.control_pb2 import (
    ListNodesRequest,
    ListRunsRequest,
    RegisterNodeRequest,
    StartRunRequest,
    StopRunRequest,
    UnregisterNodeRequest,
)
from flwr.proto.fab_pb2 import Fab
from flwr.proto.runtime_pb2 import AcquireTaskRequest
from flwr.supercore.constant import TaskType
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
from flwr.supercore.runtime import RuntimeHttpClient

_PROJECT = b"""[project]
name = "stranger"
version = "1.0.0"
description = "a run of a stranger"
license = "Apache-2.0"
dependencies = []
[tool.hatch.build.targets.wheel]
packages = ["."]
[tool.flwr.app]
publisher = "stranger"
[tool.flwr.app.components]
serverapp = "server:app"
clientapp = "client:app"
[tool.flwr.app.config]
"""
_SERVER = b"from flwr.serverapp import ServerApp\n\napp = ServerApp()\n"


class Target(NamedTuple):
    """A SuperLink, as an outsider sees it."""

    host: str
    port: int
    certificate: Path


class Outsider:
    """Asks a SuperLink for what only its administrator should get."""

    def __init__(self, control: ControlHttpClient, runtime: RuntimeHttpClient) -> None:
        self._control, self._runtime = control, runtime

    def list_nodes(self) -> list[int]:
        return [node.node_id for node in self._control.ListNodes(ListNodesRequest()).nodes_info]

    def register_a_rogue(self) -> int:
        key = ec.generate_private_key(ec.SECP384R1()).public_key()
        text = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        return int(self._control.RegisterNode(RegisterNodeRequest(public_key=text)).node_id)

    def unregister(self, node: int = 1) -> None:
        self._control.UnregisterNode(UnregisterNodeRequest(node_id=node))

    def stop_all_runs(self) -> None:
        for run in self._control.ListRuns(ListRunsRequest()).run_dict:
            self._control.StopRun(StopRunRequest(run_id=run))

    def start_a_run(self, client_app: bytes = b"") -> None:
        files = {"pyproject.toml": _PROJECT, "server.py": _SERVER, "client.py": client_app}
        content, _ = build_fab_from_files(files)
        fab = Fab(hash_str=hashlib.sha256(content).hexdigest(), content=content)
        self._control.StartRun(StartRunRequest(fab=fab))

    def claim_a_run(self) -> str:
        request = AcquireTaskRequest(supported_task_types=[TaskType.SERVER_APP])
        return str(self._runtime.AcquireTask(request).token)


ATTACKS = {
    "list nodes": Outsider.list_nodes,
    "register a rogue": Outsider.register_a_rogue,
    "unregister a node": Outsider.unregister,
    "stop the run": Outsider.stop_all_runs,
    "start a run": Outsider.start_a_run,
    "claim a run": Outsider.claim_a_run,
}


@contextmanager
def outsider(target: Target, headers: dict[str, str] | None = None) -> Iterator[Outsider]:
    """An outsider at a SuperLink; insiders have a header."""
    given = f"{target.host}:{target.port}", False, target.certificate.read_bytes()
    says = [RuntimeVersionHttpInterceptor("flwr CLI")]
    with (
        ControlHttpClient.from_server_address(*given, says) as control,
        RuntimeHttpClient.from_server_address(*given, says) as runtime,
    ):
        for client in (control, runtime):
            client._client.headers.update(headers or {})
        yield Outsider(control, runtime)


def status_of(target: Target, method: str, path: str, body: bytes = b"", *headers: str) -> int:
    """The status that a request gets, sent as raw bytes: nothing is made canonical on the way."""
    context = ssl.create_default_context(cafile=str(target.certificate))
    usual = ["Content-Type: application/protobuf", "Connection: close"]
    if not any(header.lower().startswith("transfer-encoding") for header in headers):
        usual.append(f"Content-Length: {len(body)}")
    if not any(header.lower().startswith("host") for header in headers):
        usual.append("Host: localhost")
    text = "\r\n".join([f"{method} {path} HTTP/1.1", *usual, *headers, "", ""])
    with (
        socket.create_connection((target.host, target.port), timeout=60) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secure,
    ):
        secure.sendall(text.encode("latin-1") + body)
        reply = b""
        while b"\r\n" not in reply and (more := secure.recv(4096)):
            reply += more
    return int(reply.split()[1])


def is_refused(error: httpx.HTTPStatusError) -> bool:
    """Whether a SuperLink said no, and nothing more."""
    return error.response.status_code in (401, 404) and not error.response.content


def blown_up(contents: Mapping[str, bytes], times: int) -> dict[str, bytes]:
    """The parts of a message whose array has its data so many times: it hardly grows on the way."""
    parts, renamed = dict[str, bytes](), dict[bytes, bytes]()
    for name, content in contents.items():  # children come first
        kind = content.split(b" ", 1)[0]
        for before, after in renamed.items():
            content = content.replace(before, after)
        if kind == b"Array":
            head, _, body = content.partition(b"\0")
            values = json.loads(body)
            values["shape"], values["arraychunk_ids"] = [times], [0] * times
            body = json.dumps(values).encode()
            content = b" ".join([*head.split(b" ")[:2], str(len(body)).encode()]) + b"\0" + body
        new = name if kind == b"Message" else hashlib.sha256(content).hexdigest()
        renamed[name.encode()], parts[new] = new.encode(), content
    return parts
