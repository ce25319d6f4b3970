"""What is used of Flower beside its public interface is still there, and is called in the same way.

A test that fails here after an update of Flower says which name `favano.flower.private` has to be
changed for. Where all of them hold, `test_node` shows that they still do what they did.
"""

from __future__ import annotations

import importlib
import inspect
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("flwr")

import httpx
from flwr.cli.build import build_fab_from_files
from flwr.common.constant import ErrorCode, SubStatus
from flwr.supercore.constant import TaskType
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.corestate.sql_corestate import SqlCoreState
from flwr.supercore.error import ApiErrorCode
from flwr.supercore.heartbeat import HeartbeatSender, make_task_heartbeat_fn_http
from flwr.supercore.http_logging import get_uvicorn_log_config
from flwr.supercore.inflatable import inflatable_object, inflatable_utils
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
from flwr.supercore.primitives.asymmetric_ed25519 import create_message_to_sign
from flwr.supercore.protobuf.client import ProtobufClient
from flwr.supercore.retry import http_retry
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.grid.http_grid import HttpGrid
from flwr.superlink.main import create_app
from flwr.superlink.servicer.control import control_handlers
from flwr.supernode import fleet_http_connection

from favano.flower import private, superlink

flower_superlink = importlib.import_module("flwr.superlink.cli.flower_superlink")
PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"


def test_the_version_is_pinned() -> None:
    extras = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]
    assert extras["flower"] == [f"flwr=={private.VERSION}"]
    private.check_version()


def test_a_node_that_has_left_has_a_number_of_its_own() -> None:
    codes = [value for name, value in vars(ErrorCode).items() if name.isupper()]
    assert codes.count(private.NODE_GONE) == 1


def test_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private, "package_version", "1.99.0")
    with (
        pytest.raises(RuntimeError, match=re.escape("flwr 1.99.0: need Flower 1.41.0")),
        private.connect("127.0.0.1:1"),
    ):
        pass


@pytest.mark.parametrize(
    ("function", "parameters"),
    [
        (
            fleet_http_connection.http_request_response,
            "server_address insecure root_certificates authentication_keys max_retries "
            "max_wait_time",
        ),
        (inflatable_object.get_all_nested_objects, "obj"),
        (inflatable_object.get_object_tree, "obj"),
        (inflatable_object.iterate_object_tree, "tree"),
        (inflatable_object.no_object_id_recompute, ""),
        (
            inflatable_utils.inflate_object_from_contents,
            "object_id object_contents keep_object_contents objects",
        ),
        (
            inflatable_utils.pull_objects,
            "object_ids pull_object_fn max_concurrent_pulls max_time max_tries_per_object "
            "initial_backoff backoff_cap",
        ),
        (
            inflatable_utils.push_objects,
            "objects push_object_fn object_ids_to_push keep_objects max_concurrent_pushes",
        ),
        (
            RuntimeHttpClient.from_server_address,
            "server_address insecure root_certificates interceptors retry_invoker",
        ),
        (RuntimeHttpClient.AcquireTask, "self request"),
        (RuntimeHttpClient.PullTaskInput, "self request"),
        (RuntimeHttpClient.PushTaskOutput, "self request"),
        (RuntimeVersionHttpInterceptor, "component_name"),
        (HttpGrid, "runtime_api_address insecure root_certificates token"),
        (HeartbeatSender, "heartbeat_fn"),
        (HeartbeatSender.start, "self"),
        (HeartbeatSender.stop, "self"),
        (make_task_heartbeat_fn_http, "client"),
        (
            ControlHttpClient.from_server_address,
            "server_address insecure root_certificates interceptors retry_invoker",
        ),
        (ControlHttpClient.ListNodes, "self request"),
        (ControlHttpClient.ListRuns, "self request"),
        (ControlHttpClient.RegisterNode, "self request"),
        (ControlHttpClient.StartRun, "self request"),
        (ControlHttpClient.StopRun, "self request"),
        (ControlHttpClient.UnregisterNode, "self request"),
        (build_fab_from_files, "files"),
        (create_message_to_sign, "fab_digest timestamp"),
        (create_app, "config superlink_lifespan_class"),
        (flower_superlink.SuperLinkLifespan, "config state_factory"),
        (flower_superlink._parse_superlink_lifespan_config, ""),
        (get_uvicorn_log_config, "log_level"),
        (
            SqlCoreState.store_app,
            "self fab federation_id app_id app_type added_by is_hub_app display_name description "
            "color",
        ),
    ],
    ids=lambda value: getattr(value, "__qualname__", ""),
)
def test_functions_take_what_they_took(function: Callable[..., object], parameters: str) -> None:
    assert list(inspect.signature(function).parameters) == parameters.split()


def test_a_secret_travels_with_every_request_of_a_client() -> None:
    inside = private.Inside("127.0.0.1:1", "5ec4e7")
    with RuntimeHttpClient.from_server_address("127.0.0.1:1", True, None, []) as client:
        private._with_secret(client, inside)
        request = client._client.build_request("POST", "http://127.0.0.1:1/")
    assert request.headers["favano-secret"] == "5ec4e7"
    source = inspect.getsource(ProtobufClient)
    assert source.count("httpx.Client(") == 1
    assert source.count("httpx.Request(") == 0


def test_an_app_is_stored_with_its_signatures_and_found_by_its_digest() -> None:
    """A stock SuperLink forgets the signatures of apps that are submitted with their content."""
    source = inspect.getsource(control_handlers.start_run)
    assert "verification_dict = stored_fab.verifications" in source
    assert "is_stored_app = bool(request.fab.hash_str and not request.fab.content)" in source


def test_a_bundle_of_the_same_files_has_the_same_bytes() -> None:
    files = {"pyproject.toml": superlink._APP, "server.py": "a = 1\n", "client.py": "b = 2\n"}
    assert private.app_bytes(files) == private.app_bytes(dict(reversed(files.items())))


def test_a_connection_gives_what_it_gave() -> None:
    """The number of the node, then seven functions in this order."""
    source = inspect.getsource(fleet_http_connection.http_request_response)
    given = re.search(r"yield \((.*?)\)", source, re.DOTALL)
    assert given is not None
    assert [name.strip() for name in given[1].split(",") if name.strip()] == [
        "node.node_id", "receive", "send", "get_run", "get_fab", "pull_object", "push_object",
        "confirm_message_received",
    ]  # fmt: skip


def test_a_connection_that_fails_ends_by_the_function_that_is_replaced() -> None:
    source = inspect.getsource(fleet_http_connection.http_request_response)
    assert source.count("flwr_exit(") == 1
    assert private._FAILED.strip() in source


def test_a_node_that_is_let_in_no_more_ends_by_the_signal_that_is_replaced() -> None:
    for module in (fleet_http_connection, http_retry):
        source = inspect.getsource(module)
        used = re.findall(r"\bos\.\w+", source)
        assert used == ["os.kill", "os.getpid"], module


def test_numbers_and_words_mean_what_they_meant() -> None:
    assert int(ApiErrorCode.FLEET_NODE_ACTIVATION_FAILED) == 2004
    assert str(TaskType.SERVER_APP) == "flwr-serverapp"
    assert (SubStatus.COMPLETED, SubStatus.FAILED) == ("completed", "failed")
    assert {"_task_id", "_run_id", "_node_id"} <= vars(TaskIdentity).keys()


def test_a_failed_connection_leaves_flower_as_it_was() -> None:
    names = [
        (fleet_http_connection, "flwr_exit"),
        (fleet_http_connection, "os"),
        (http_retry, "os"),
    ]
    before = [vars(module)[name] for module, name in names]
    with pytest.raises(private.CallRefused), private.connect("127.0.0.1:1", patience=0.1):
        pass
    assert [vars(module)[name] for module, name in names] == before


def test_heartbeats_outlast_errors_of_the_superlink() -> None:
    """Its disk may be full for a while; Flower's own function raises, and is not called again."""
    codes = [500, 401, 200]

    def send(_: object) -> SimpleNamespace:
        code = codes.pop(0)
        httpx.Response(code, request=httpx.Request("POST", "http://127.0.0.1/")).raise_for_status()
        return SimpleNamespace(success=True)

    grid: Any = SimpleNamespace(_runtime_client=SimpleNamespace(SendTaskHeartbeat=send))
    beat = private._heartbeat(grid)
    assert [beat(), beat(), beat()] == [False, False, True]


def test_a_heartbeat_to_a_run_that_has_ended_interrupts_nobody() -> None:
    sent = SimpleNamespace(SendTaskHeartbeat=lambda _: SimpleNamespace(success=False))
    grid: Any = SimpleNamespace(_runtime_client=sent)
    with private._ends_raised():
        assert private._heartbeat(grid)() is False
