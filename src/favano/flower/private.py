"""All that is used of Flower beside its public interface, in one place.

A stock SuperNode starts a new process for every message and sleeps for seconds between two polls; a
resident node talks to the SuperLink itself (`connect`), over the API that SuperNodes use. A server
that is not a child of the SuperLink claims its run (`claimed_run`), and does what an administrator
does (`Administration`), each time with the secret of the SuperLink's door. Flower may change all of
this at any time: the version is pinned, and `tests/flower/test_private.py` says what has changed.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import NamedTuple, TypeAlias, TypeVar

import httpx
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.app import Array, Message
from flwr.cli.build import build_fab_from_files
from flwr.common.constant import ErrorCode, SubStatus
from flwr.common.serde import run_from_proto
from flwr.proto.control_pb2 import (
    ListNodesRequest,
    ListRunsRequest,
    RegisterNodeRequest,
    StartRunRequest,
    StopRunRequest,
    UnregisterNodeRequest,
)
from flwr.proto.fab_pb2 import Fab
from flwr.proto.message_pb2 import ObjectTree
from flwr.proto.runtime_pb2 import AcquireTaskRequest, PullTaskInputRequest, PushTaskOutputRequest
from flwr.serverapp.grid import Grid
from flwr.supercore import heartbeat
from flwr.supercore.constant import NodeStatus, TaskType
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.error import ApiErrorCode, FlowerError
from flwr.supercore.heartbeat import HeartbeatSender, make_task_heartbeat_fn_http
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_body,
    get_object_head_values_from_object_content,
    get_object_tree,
    iterate_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.inflatable.inflatable_utils import (
    inflate_object_from_contents,
    pull_objects,
    push_objects,
)
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from flwr.supercore.primitives.asymmetric_ed25519 import create_message_to_sign
from flwr.supercore.protobuf.client import ProtobufClient
from flwr.supercore.retry import http_retry
from flwr.supercore.run import RunNotRunningException
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supercore.task_identity import TaskIdentity
from flwr.supercore.version import package_version
from flwr.superlink.grid.http_grid import HttpGrid
from flwr.supernode import fleet_http_connection

from favano.flower.wire import MOST_BYTES

NODE_GONE = ErrorCode.NODE_UNAVAILABLE  # instead of a reply
VERSION = "1.41.0"  # of Flower, that this module was written for
FIRST_PAUSE = 0.05  # seconds until parts that are not uploaded yet are asked for again, then twice
# as many; Flower waits a second, which is often lost since heads come before parts.
LAST_PAUSE = 2.0  # seconds between two such tries at most

SECRET_HEADER = "favano-secret"  # of a request from inside (`door`)

AnyClient = TypeVar("AnyClient", bound=ProtobufClient)
Keys: TypeAlias = tuple[ec.EllipticCurvePrivateKey, ec.EllipticCurvePublicKey]
_FAILED = "Failed to initialize the connection to the SuperLink.\n"
_UNREGISTERED = str(NodeStatus.UNREGISTERED)
_LAPSING = f"[code: {int(ApiErrorCode.FLEET_NODE_ACTIVATION_FAILED)}]"


class CallRefused(ConnectionError):
    """The SuperLink did not let a node in, or could not be reached."""

    @property
    def may_lapse(self) -> bool:
        """Whether an old session of the same node may be the reason, or a key that is unknown."""
        return _LAPSING in str(self)


@dataclass(frozen=True)
class NodeConnection:
    """A node's connection to the SuperLink; heartbeats are sent in the background."""

    node: int  # Flower's number of this node
    _receive: Callable[[], tuple[Message, ObjectTree] | None]
    _send: Callable[[Message, ObjectTree, float], tuple[set[str], str]]
    _pull: Callable[[int, str], bytes]
    _push: Callable[[int, str, str, bytes], None]
    _confirm: Callable[[int, str], None]

    def receive(self) -> Message | None:
        """The next message with its content; None if there is none now."""
        if (received := self._receive()) is None:
            return None
        head, tree = received
        run, name = head.metadata.run_id, head.metadata.message_id
        try:
            wanted = [part.object_id for part in iterate_object_tree(tree)]
            pull = partial(self._pull, run)
            contents = pull_objects(wanted, pull, initial_backoff=FIRST_PAUSE)
            self._confirm(run, name)
        except RunNotRunningException:  # it has ended meanwhile
            return None
        message = inflated(name, contents, 2 * MOST_BYTES)  # a model, and what corrects gradients
        message.metadata.__dict__["_message_id"] = name
        return message

    def send(self, reply: Message, seconds: float) -> bool:
        """Send a reply that took so long; False if nobody waits for it since the run has ended."""
        with no_object_id_recompute():
            reply.metadata.__dict__["_message_id"] = reply.object_id
            try:
                wanted, session = self._send(reply, get_object_tree(reply), seconds)
                push = partial(self._push, reply.metadata.run_id, session)
                push_objects(get_all_nested_objects(reply), push, object_ids_to_push=wanted)
            except RunNotRunningException:
                return False
        return True


class TooLarge(Exception):
    """A message has more bytes than any honest one."""


def inflated(name: str, contents: Mapping[str, bytes], most: int) -> Message:
    """The message of which these are the parts, if its arrays have no more bytes than that."""
    if _array_bytes(contents) > most:
        raise TooLarge(f"the arrays of a message have more than {most} bytes")
    inflated = inflate_object_from_contents(name, dict(contents))
    assert isinstance(inflated, Message)
    return inflated


def _array_bytes(contents: Mapping[str, bytes]) -> int:
    """Bytes of all arrays, put together: an array can name one of its parts a million times."""
    size = 0
    for content in contents.values():
        kind, parts, _ = get_object_head_values_from_object_content(content)
        if kind == Array.__qualname__:
            numbers = json.loads(get_object_body(content, Array))["arraychunk_ids"]
            size += sum(len(contents[parts[number]]) for number in numbers)
    return size


class Denied(RuntimeError):
    """A SuperLink does not do what its administrator asks."""

    def __init__(self, sentence: str, code: int) -> None:
        super().__init__(sentence)
        self.code = code


class Inside(NamedTuple):
    """Where a SuperLink is for its own server."""

    address: str  # HOST:PORT
    secret: str
    root_certificate: bytes | None = None  # None: plaintext


class RunEnded(ConnectionError):
    """The SuperLink has ended the run of this server."""

    def __init__(self) -> None:
        super().__init__(
            "the SuperLink has ended the run: it heard nothing from this server for a minute, "
            "since one of them was held, or its clock was set"
        )


@dataclass(frozen=True)
class ClaimedRun:
    """A run whose server is this process."""

    grid: Grid
    run: int  # Flower's number of it
    token: str


@contextmanager
def connect(
    address: str,
    *,
    root_certificate: bytes | None = None,
    keys: Keys | None = None,
    patience: float = 20.0,
) -> Iterator[NodeConnection]:
    """Connect a node to a SuperLink, or raise `Refused`.

    An error inside the `with` block that Flower does not raise again ends the block.

    Args:
        address: HOST:PORT of the SuperLink.
        root_certificate: of the authority that signed the SuperLink's certificate; None: plaintext.
        keys: of the node; None: it registers itself, if the SuperLink lets it.
        patience: seconds for which a SuperLink that does not answer is tried again.
    """
    check_version()
    with (
        _exits_raised(),
        fleet_http_connection.http_request_response(
            address, root_certificate is None, root_certificate, keys, max_wait_time=patience
        ) as (node, receive, send, _, _, pull, push, confirm),
    ):
        yield NodeConnection(node, receive, send, pull, push, confirm)


def check_version() -> None:
    """Refuse another version of Flower than the one that this module knows."""
    if package_version != VERSION:
        rule = f"need Flower {VERSION}, as installed by favano[flower], for a resident node"
        raise RuntimeError(f"flwr {package_version}: {rule}")


class Administration:
    """What the administrator of a SuperLink may do; errors are `RuntimeError`, in one sentence."""

    def __init__(self, client: ControlHttpClient) -> None:
        self._client = client

    def nodes(self) -> dict[bytes, int]:
        """Registered nodes: Flower's number of each, by its key."""
        with _failures_told("list nodes"):
            nodes = self._client.ListNodes(ListNodesRequest()).nodes_info
        return {node.public_key: node.node_id for node in nodes if node.status != _UNREGISTERED}

    def register(self, name: str, key: ec.EllipticCurvePublicKey) -> bool:
        """Let the node with this key in; False if it was unregistered before."""
        request = RegisterNodeRequest(public_key=key_bytes(key), name=name)
        try:
            with _failures_told(f"register {name}"):
                self._client.RegisterNode(request)
        except Denied as error:
            if error.code != ApiErrorCode.PUBLIC_KEY_ALREADY_IN_USE:
                raise
            return False
        return True

    def unregister(self, node: int) -> None:
        """Let a node in no more; its key can never be registered again."""
        with _failures_told(f"unregister node {node}"):
            self._client.UnregisterNode(UnregisterNodeRequest(node_id=node))

    def runs(self) -> dict[int, str]:
        """The status of the newest runs, by number."""
        with _failures_told("list runs"):
            runs = self._client.ListRuns(ListRunsRequest()).run_dict
        return {
            run: f"{details.status.status}:{details.status.sub_status}".rstrip(":")
            for run, details in runs.items()
        }

    def stop(self, run: int) -> None:
        """End a run."""
        with _failures_told(f"stop run {run}"):
            self._client.StopRun(StopRunRequest(run_id=run))

    def start(self, app: str, content: bytes) -> None:
        """Start a run of an app that the SuperLink has."""
        fab = Fab(hash_str=hashlib.sha256(content).hexdigest())
        with _failures_told(f"run {app}"):
            response = self._client.StartRun(StartRunRequest(fab=fab, app_spec=app))
        if not response.HasField("run_id"):
            raise RuntimeError(f"the SuperLink does not run {app}")


@contextmanager
def administration(inside: Inside) -> Iterator[Administration]:
    """Be the administrator of a SuperLink."""
    address, _, certificate = inside
    says = RuntimeVersionHttpInterceptor("flwr CLI")
    with ControlHttpClient.from_server_address(
        address, certificate is None, certificate, [says]
    ) as client:
        yield Administration(_with_secret(client, inside))


def key_bytes(key: ec.EllipticCurvePublicKey) -> bytes:
    """A node's key as the SuperLink stores it."""
    return public_key_to_bytes(key)


def app_bytes(files: Mapping[str, str]) -> bytes:
    """An app as Flower bundles it; the same files give the same bytes."""
    bundle, _ = build_fab_from_files({name: text.encode() for name, text in files.items()})
    return bundle


def app_message(content: bytes, seconds: int) -> bytes:
    """What is signed of an app, at this time."""
    return create_message_to_sign(hashlib.sha256(content).digest(), seconds)


@contextmanager
def claimed_run(inside: Inside) -> Iterator[ClaimedRun | None]:
    """Claim the oldest run that waits for its server, and keep it alive; None if none waits.

    The SuperLink has to be started with `--isolation process`. The run is complete when the block
    ends, and has failed if it raises.
    """
    check_version()
    address, _, certificate = inside
    plain, says = certificate is None, RuntimeVersionHttpInterceptor("SuperExec")
    with RuntimeHttpClient.from_server_address(address, plain, certificate, [says]) as client:
        request = AcquireTaskRequest(supported_task_types=[TaskType.SERVER_APP])
        token = _with_secret(client, inside).AcquireTask(request).token
    if not token:
        yield None
        return
    with _ends_raised():
        yield from _served(inside, token)


def _served(inside: Inside, token: str) -> Iterator[ClaimedRun]:
    """The run of this token, whose server we are from now on."""
    address, _, certificate = inside
    grid = HttpGrid(address, certificate is None, certificate, token=token)
    _with_secret(grid._runtime_client, inside)
    heartbeats = HeartbeatSender(_heartbeat(grid))
    heartbeats.start()
    output = PushTaskOutputRequest(sub_status=SubStatus.FAILED, details="the server failed")
    try:
        given = grid._runtime_client.PullTaskInput(PullTaskInputRequest())
        TaskIdentity.task_id, TaskIdentity.run_id = given.task_id, given.run.run_id
        TaskIdentity.node_id = given.context.node_id
        grid.set_run(run_from_proto(given.run))
        yield ClaimedRun(grid, given.run.run_id, token)
        output = PushTaskOutputRequest(sub_status=SubStatus.COMPLETED)
    finally:
        heartbeats.stop()
        grid._retry_invoker.max_tries = 1
        with suppress(httpx.HTTPError, RunNotRunningException, RunEnded):  # it ends by itself
            grid._runtime_client.PushTaskOutput(output)
        grid.close()


def _heartbeat(grid: HttpGrid) -> Callable[[], bool]:
    """Tells the SuperLink that we are here; False, so that it is tried again, if it has an error.

    Flower's own function raises some of them, which ends the thread that sends heartbeats.
    """
    send = make_task_heartbeat_fn_http(grid._runtime_client)

    def beat() -> bool:
        try:
            return send()
        except (httpx.HTTPStatusError, RunEnded):
            return False

    return beat


def _with_secret(client: AnyClient, inside: Inside) -> AnyClient:
    """The client, whose requests carry the secret."""
    client._client.headers[SECRET_HEADER] = inside.secret
    return client


@contextmanager
def _failures_told(what: str) -> Iterator[None]:
    """Say what a SuperLink did not do, and why."""
    try:
        yield
    except httpx.HTTPStatusError as error:
        refusal = FlowerError.from_json(error.response.text)
        why, code = str(error), 0
        if refusal is not None:
            why, code = refusal.message, int(refusal.code)
        raise Denied(f"the SuperLink does not {what}: {why}", code) from None
    except httpx.HTTPError as error:
        raise RuntimeError(f"the SuperLink does not {what}: {error}") from None


@contextmanager
def _exits_raised() -> Iterator[None]:
    """Let Flower raise `Refused` where it would end the process.

    It does so if there is no connection, and, by a signal, if a node is let in no more.
    """

    def refuse(code: int, message: str) -> None:
        raise CallRefused(message.removeprefix(_FAILED))

    def kill(process: int, number: int) -> None:
        raise CallRefused("the server lets this node in no more")

    signals = SimpleNamespace(getpid=os.getpid, kill=kill)
    with (
        _replaced(fleet_http_connection, "flwr_exit", refuse),
        _replaced(fleet_http_connection, "os", signals),
        _replaced(http_retry, "os", signals),
    ):
        yield


@contextmanager
def _ends_raised() -> Iterator[None]:
    """Let Flower raise `RunEnded` where it would interrupt the process: nobody told it to end."""

    def end(*_: object) -> None:
        raise RunEnded

    with (
        _replaced(http_retry, "os", SimpleNamespace(getpid=os.getpid, kill=end)),
        _replaced(heartbeat, "signal", SimpleNamespace(SIGINT=signal.SIGINT, raise_signal=end)),
    ):
        yield


@contextmanager
def _replaced(module: ModuleType, name: str, value: object) -> Iterator[None]:
    kept = vars(module)[name]
    vars(module)[name] = value
    try:
        yield
    finally:
        vars(module)[name] = kept
