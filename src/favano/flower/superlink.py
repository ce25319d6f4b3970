"""A SuperLink of our own: started, watched, started again if it ends, and gone when we are."""

from __future__ import annotations

import base64
import json
import os
import secrets
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from favano.errors import BadInput, require
from favano.flower.addresses import is_loopback
from favano.flower.keys import (
    AUTHORITY,
    OPERATOR,
    SERVER,
    node_keys,
    operator_name,
    read_operator_key,
)
from favano.flower.private import (
    Inside,
    administration,
    app_bytes,
    app_message,
    key_bytes,
)

APP = "@favano/favano-federation"
APP_FILE, SIGNATURES, SECRET = "app.fab", "app.json", "superlink.secret"  # in its folder

_PATIENCE = 60.0  # seconds until a SuperLink answers
_PAUSE = 0.5  # seconds between two looks at it
_ENDING = 10.0  # seconds that it has to end, when told
_APP = """[project]
name = "favano-federation"
version = "1.0.0"
description = "a federation of favano"
license = "Apache-2.0"
dependencies = []
[tool.hatch.build.targets.wheel]
packages = ["."]
[tool.flwr.app]
publisher = "favano"
[tool.flwr.app.components]
serverapp = "server:app"
clientapp = "client:app"
[tool.flwr.app.config]
"""
_DOOR = "favano.flower.door"
_SERVER_APP = "from flwr.serverapp import ServerApp\n\napp = ServerApp()\n"
_CLIENT_APP = "from favano.flower import data_partition\n\napp = data_partition.app\n"


@dataclass(frozen=True)
class SuperLink:
    """Where a SuperLink is, and what it needs.

    Args:
        folder: for its files and its log.
        host: address that nodes find it at.
        port: likewise.
        keys: folder of `favano keys`: with it, TLS, registered nodes only, and signed calls.
        insecure: nodes of other machines without keys.
        client_app: text of the ClientApp of its runs, by default one that has a share of a data
            set.
        inside: port on loopback for its own server.
        secret: what is asked for there.
    """

    folder: Path
    host: str = "127.0.0.1"
    port: int = 8000
    keys: Path | None = None
    insecure: bool = False
    client_app: str = _CLIENT_APP
    inside: int = field(default_factory=lambda: free_port())
    secret: str = field(default_factory=lambda: secrets.token_hex(32), repr=False)

    def __post_init__(self) -> None:
        require(0 < self.port < 2**16, "port", self.port, "need 1..65535")
        require(self.port != self.inside, "inside", self.inside, "need another port than for nodes")
        rule = "is for servers without keys: with them, everything is encrypted"
        require(self.keys is None or not self.insecure, "insecure", self.insecure, rule)
        rule = (
            "is open to other machines: need keys (favano keys), or insecure, with which whoever "
            "reaches the port can read all models and answers, change them, and join as any node"
        )
        safe = self.keys is not None or self.insecure or is_loopback(self.host)
        require(safe, "host", self.host, rule)
        if self.keys is not None:
            names = (f"{AUTHORITY}.crt", f"{SERVER}.crt", f"{SERVER}.key", f"{OPERATOR}.key")
            for name in names:
                rule = f"lacks {name}; need a folder of favano keys, which makes what is missing"
                require((self.keys / name).is_file(), "keys", self.keys, rule)

    @property
    def address(self) -> str:
        """HOST:PORT for nodes, as seen from this machine."""
        here = "127.0.0.1" if self.host in ("0.0.0.0", "::") else self.host
        return f"{here}:{self.port}"

    @property
    def authority(self) -> Path | None:
        """The certificate that nodes and server trust."""
        return None if self.keys is None else self.keys / f"{AUTHORITY}.crt"

    @property
    def operator(self) -> Path | None:
        """The key that calls are signed with."""
        return None if self.keys is None else self.keys / f"{OPERATOR}.key"

    @property
    def door(self) -> Inside:
        """Where its own server finds it."""
        certificate = None if self.authority is None else self.authority.read_bytes()
        return Inside(f"127.0.0.1:{self.inside}", self.secret, certificate)

    @property
    def command(self) -> list[str]:
        """How it is started."""
        secure = ["--insecure"]
        if self.keys is not None:
            secure = [
                "--ssl-ca-certfile", str(self.authority),
                "--ssl-certfile", str(self.keys / f"{SERVER}.crt"),
                "--ssl-keyfile", str(self.keys / f"{SERVER}.key"),
                "--enable-supernode-auth",
            ]  # fmt: skip
        place = ["--host", self.host, "--port", str(self.port), "--isolation", "process"]
        database = ["--database", str(self.database)]
        own = [sys.executable, "-P", "-m", _DOOR, str(self.folder), str(self.inside)]
        return [*own, *secure, *place, *database]

    @property
    def database(self) -> Path:
        """Where it keeps runs, nodes and messages."""
        return self.folder / "superlink.db"

    @property
    def environment(self) -> dict[str, str]:
        """What Flower's programs are told."""
        return {
            **os.environ,
            "FLWR_HOME": str(self.folder / "flower"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        }

    def write_files(self) -> None:
        """Write what it reads when it starts: the secret, and the app with its signature."""
        self.folder.mkdir(parents=True, exist_ok=True)
        secret = self.folder / SECRET
        secret.unlink(missing_ok=True)
        with os.fdopen(os.open(secret, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(self.secret)
        (self.folder / APP_FILE).write_bytes(self._app)
        (self.folder / SIGNATURES).write_text(json.dumps(self._signatures()))

    @property
    def _app(self) -> bytes:
        files = {"pyproject.toml": _APP, "server.py": _SERVER_APP, "client.py": self.client_app}
        return app_bytes(files)

    def _signatures(self) -> dict[str, str]:
        """Signatures of the app by the operator, as stock SuperNodes look for them."""
        if self.operator is None:
            return {}
        key, now = read_operator_key(self.operator), int(time.time())
        signature = base64.urlsafe_b64encode(key.sign(app_message(self._app, now))).decode()
        signed = json.dumps({"signature": signature.rstrip("="), "signed_at": now})
        return {operator_name(key.public_key()): signed, "valid_license": "Valid"}

    def answers(self) -> bool:
        """Whether it is there."""
        context, scheme = None, "http"
        if self.authority is not None:
            context, scheme = ssl.create_default_context(cafile=str(self.authority)), "https"
        try:
            with urlopen(
                f"{scheme}://{self.address}/health", None, 5.0, context=context
            ) as response:
                return bool(response.status == 200)
        except (URLError, OSError):
            return False

    def register_nodes(self, say: Callable[[str], None]) -> None:
        """Let those nodes in, and no others, whose public keys are in the folder."""
        if self.keys is None:
            return
        wanted = {key_bytes(key): (name, key) for name, key in node_keys(self.keys).items()}
        with administration(self.door) as administrator:
            known = administrator.nodes()
            for key, node in known.items():
                if key not in wanted:
                    administrator.unregister(node)
                    say(f"node {node} is let in no more: its key is not in {self.keys}")
            for key, (name, public) in wanted.items():
                if key not in known and not administrator.register(name, public):
                    say(f"node {name} is not let in: its key was revoked; make a new one")

    def stop_runs(self) -> None:
        """End the runs of servers that were killed.

        Nodes would wait for the rest of calls that were not sent in full until Flower, which hears
        no more from their server, ends the run within a minute.
        """
        with administration(self.door) as administrator:
            for run, status in administrator.runs().items():
                if not status.startswith("finished"):
                    administrator.stop(run)

    def submit(self) -> None:
        """Submit a run."""
        with administration(self.door) as administrator:
            administrator.start(APP, self._app)


@contextmanager
def running(link: SuperLink, say: Callable[[str], None]) -> Iterator[None]:
    """Run a SuperLink as long as the block lasts."""
    _end_old(link.database)
    _need_port(link.host, link.port)
    link.write_files()
    watcher = _Watcher(link, say)
    try:
        watcher.begin()
        yield
    finally:
        watcher.end()


def _need_port(host: str, port: int) -> None:
    """Refuse a port that another program listens at, or an address that is not this machine's."""
    kind = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(kind) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # one that has just ended
        try:
            trial.bind((host, port))
        except OSError as error:
            raise BadInput("port", port, f"cannot be used at {host}: {error.strerror}") from error


class _Watcher:
    """Starts a SuperLink, and starts it again when it ends: nodes wait for it for a minute.

    Nodes whose keys come or go are let in, or no more.
    """

    def __init__(self, link: SuperLink, say: Callable[[str], None]) -> None:
        self._link, self._say = link, say
        self._child: subprocess.Popen[bytes] | None = None
        self._leaving = threading.Event()
        self._keys: dict[Path, float] = {}
        self._problem = ""  # that was told last
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def begin(self) -> None:
        self._start()
        until = time.monotonic() + _PATIENCE
        while not self._link.answers():
            child = self._child
            assert child is not None
            gone = child.poll() is not None or time.monotonic() > until
            log = self._link.folder / "superlink.log"
            require(not gone, "port", self._link.port, f"the SuperLink did not start; see {log}")
            time.sleep(0.1)
        self._keys = self._listing()
        self._link.register_nodes(self._say)
        self._thread.start()

    def end(self) -> None:
        self._leaving.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._child is not None:
            _end(self._child)
        (self._link.folder / SECRET).unlink(missing_ok=True)

    def _start(self) -> None:
        with (self._link.folder / "superlink.log").open("ab") as log:
            self._child = subprocess.Popen(
                self._link.command,
                env=self._link.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _watch(self) -> None:
        while not self._leaving.wait(_PAUSE):
            if self._child is not None and self._child.poll() is not None:
                self._say("the SuperLink ended, and is started again")
                try:
                    self._start()
                except OSError as error:  # tried again until it is done
                    self._say(f"the SuperLink could not be started: {error.strerror}")
            elif self._keys != (listing := self._listing()):
                try:
                    self._link.register_nodes(self._say)
                    self._keys = listing
                except (RuntimeError, BadInput, OSError) as error:  # tried again until it is done
                    if str(error) != self._problem:
                        self._say(f"the keys of nodes have changed, but {error}")
                    self._problem = str(error)

    def _listing(self) -> dict[Path, float]:
        """The keys of nodes, and when they changed."""
        listing: dict[Path, float] = {}
        for path in [] if self._link.keys is None else self._link.keys.glob("*.pub"):
            with suppress(OSError):  # it is gone already
                listing[path] = path.stat().st_mtime
        return listing


def _end(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    try:
        child.wait(_ENDING)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _end_old(database: Path) -> None:
    """End the SuperLink that a killed server left: nobody else has this database."""
    for number in (signal.SIGTERM, signal.SIGKILL):  # the latter also ends one that is held
        for process in _processes(database):
            with suppress(OSError):
                os.kill(process, number)
        until = time.monotonic() + _ENDING
        while _processes(database) and time.monotonic() < until:
            time.sleep(0.05)
    left = _processes(database)
    require(not left, "out", database.parent, f"process {left} has its database, and does not end")


def _processes(database: Path) -> list[int]:
    """Numbers of our SuperLinks with this database; those that have ended have no command line."""
    words, numbers = b"\0--database\0" + os.fsencode(database) + b"\0", []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended meanwhile
            mine = path.stat().st_uid == os.geteuid()  # anybody can start a program of this name
            if mine and words in path.read_bytes():
                numbers.append(int(path.parent.name))
    return numbers


def free_port() -> int:
    """A port on loopback that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
