"""Joins a Ray cluster, or starts one on this machine, and leaves nothing behind."""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from functools import cache, partial
from importlib import import_module
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import ray

from favano.errors import BadInput, one_line, require
from favano.forked_calls import usable_cores

AUTO: Final = "auto"
_ANSWER: Final = 5.0  # seconds to wait for the answer of an address
_MODE, _TOKEN, _TOKEN_FILE = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
# A node counts as dead after 3 s, not 15 s; lanes are as urgent as those of a command without Ray,
# which makes its workers nice; Ray does not report its use.
SETTINGS: Final = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_worker_niceness": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
}


@contextmanager
def connection(address: str) -> Iterator[str]:
    """Join the cluster at an address, or with `auto` one of this machine; yields its head's."""
    rule = "Ray is in use in this process; call ray.shutdown() first"
    require(not ray.is_initialized(), "cluster", address, rule)
    on_termination = signal.getsignal(signal.SIGTERM)
    # Ray prints what it thinks of lost nodes where a result may have to stand alone.
    with (
        _environment(),
        TemporaryDirectory(prefix="favano-") as folder,
        redirect_stdout(StringIO()),
    ):
        os.environ |= {key: value for key, value in SETTINGS.items() if key not in os.environ}
        try:
            _connect(address, Path(folder))
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, on_termination)  # Ray has set its own
            yield ray.get_runtime_context().gcs_address
        finally:
            ray.shutdown()


@contextmanager
def _environment() -> Iterator[None]:
    """Restore the variables of this process at the end."""
    before = dict(os.environ)
    try:
        yield
    finally:
        for key in os.environ.keys() - before.keys():
            del os.environ[key]
        os.environ |= {key: value for key, value in before.items() if os.environ.get(key) != value}


def _connect(address: str, folder: Path) -> None:
    begin = partial(ray.init, log_to_driver=False, logging_level=logging.CRITICAL)
    if address == AUTO:
        _close_ports(folder / "token", os.environ)
        begin(
            address="local",
            num_cpus=usable_cores(),
            include_dashboard=False,
            _temp_dir=str(folder),
        )
        return
    host, colon, port = address.rpartition(":")
    rule = "need auto, or HOST:PORT of a cluster that this machine has joined"
    require(bool(colon and host) and port.isdecimal(), "cluster", address, rule)
    try:
        _check_answer(host, int(port))
        with _nothing_on_stderr():
            _open_ports(address)
            begin(address=address)
    except BadInput:
        raise
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        rule = f"cannot be joined: {one_line(reason, 400)}"
        raise BadInput("cluster", address, rule) from error


def _close_ports(path: Path, environment: Mapping[str, str]) -> None:
    """Let only those in who know a token, which is in a file for the life of this cluster.

    Ray would make one by itself, and leave it in the home folder, readable for all. Then the next
    `ray start` on this machine would ask for tokens, and that on others would not.
    """
    if environment.get(_TOKEN) or environment.get(_TOKEN_FILE):
        return
    path.touch(mode=0o600)
    path.write_text(_own_token())
    os.environ[_TOKEN_FILE] = str(path)


@cache
def _own_token() -> str:
    """One for all clusters of this process, since Ray reads it only once."""
    return secrets.token_hex(32)


def _open_ports(address: str) -> None:
    """Use the token of this machine if the cluster asks for one; refused where it has none."""
    raylet = import_module("ray._raylet")
    if not hasattr(raylet, "AuthenticationMode"):  # a release without tokens
        return
    file = Path(os.environ.get(_TOKEN_FILE) or Path.home() / ".ray" / "auth_token")
    has_token = bool(os.environ.get(_TOKEN)) or file.is_file()
    mode = os.environ.get(_MODE)
    where = f"copy the file ~/.ray/auth_token of its first machine to {file}, mode 0600"
    rule = f"{_MODE} is token, and there is none: {where}"
    require(mode != "token" or has_token, "cluster", address, rule)
    try:
        raylet.GcsClient(address=address)
    except ray.exceptions.AuthenticationError:
        wrong = mode == "token"
        rule = f"asks for another token than that of this machine: {where}"
        require(not wrong, "cluster", address, rule)
        rule = f"asks for a token: {where}"
        require(has_token, "cluster", address, rule)
        rule = f"asks for a token, and {_MODE}={mode} sends none: set {_MODE}=token"
        require(mode is None, "cluster", address, rule)
    else:
        return
    os.environ[_MODE] = "token"
    raylet.Config.initialize("")
    _open_ports(address)


@contextmanager
def _nothing_on_stderr() -> Iterator[None]:
    """While Ray looks for a cluster: it repeats each second, past Python, that there is none."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _check_answer(host: str, port: int) -> None:
    """Greet as gRPC does; Ray itself would wait for minutes for an answer that never comes."""
    with socket.create_connection((host, port), _ANSWER) as connection:
        if os.environ.get("RAY_USE_TLS") == "1":
            return
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
        if connection.recv(4)[3:] != b"\x04":
            raise ConnectionError("no Ray cluster answers there")
