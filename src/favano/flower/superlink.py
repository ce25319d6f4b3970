"""A SuperLink of our own: started, watched, started again if it ends, and gone when we are."""

from __future__ import annotations

import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from favano.errors import BadInput, need
from favano.flower.keys import AUTHORITY, SERVER

_PATIENCE = 60.0  # seconds until a SuperLink answers
_PAUSE = 0.5  # seconds between two looks at it
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
_SERVER_APP = "from flwr.serverapp import ServerApp\n\napp = ServerApp()\n"
_CLIENT_APP = "from favano.flower import share\n\napp = share.app\n"


@dataclass(frozen=True)
class SuperLink:
    """Where a SuperLink is, and what it needs.

    Args:
        folder: for its files and its log.
        host: address that it listens at.
        port: likewise.
        keys: folder of `favano keys`: with it, TLS and registered nodes only.
    """

    folder: Path
    host: str = "127.0.0.1"
    port: int = 8000
    keys: Path | None = None

    def __post_init__(self) -> None:
        need(0 < self.port < 2**16, "port", self.port, "need 1..65535")
        if self.keys is not None:
            for name in (f"{AUTHORITY}.crt", f"{SERVER}.crt", f"{SERVER}.key"):
                rule = f"lacks {name}; need a folder of favano keys"
                need((self.keys / name).is_file(), "keys", self.keys, rule)

    @property
    def address(self) -> str:
        """HOST:PORT, as seen from this machine."""
        here = "127.0.0.1" if self.host in ("0.0.0.0", "::") else self.host
        return f"{here}:{self.port}"

    @property
    def authority(self) -> Path | None:
        """The certificate that nodes and server trust."""
        return None if self.keys is None else self.keys / f"{AUTHORITY}.crt"

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
        return [_program("flower-superlink"), *secure, *place, *database]

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

    def write_config(self) -> None:
        """Tell Flower's commands where it is."""
        home = self.folder / "flower"
        home.mkdir(parents=True, exist_ok=True)
        trust = "insecure = true"
        if self.authority is not None:
            trust = f'root-certificates = "{self.authority.absolute()}"'
        text = f'[superlink.favano]\naddress = "{self.address}"\n{trust}\n'
        (home / "config.toml").write_text(text)

    def answers(self) -> bool:
        """Whether it is there."""
        context, scheme = None, "http"
        if self.authority is not None:
            context, scheme = ssl.create_default_context(cafile=str(self.authority)), "https"
        try:
            with urlopen(f"{scheme}://{self.address}/health", context=context) as response:
                return bool(response.status == 200)
        except (URLError, OSError):
            return False

    def flwr(self, *arguments: str) -> str:
        """Call one of Flower's commands, and return what it prints."""
        done = subprocess.run(
            [_program("flwr"), *arguments, "favano", "--format", "json"],
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
        )
        failed = done.returncode != 0 or '"success": false' in done.stdout
        if failed:
            raise RuntimeError(f"flwr {arguments[0]}: {done.stdout}{done.stderr}")
        return done.stdout

    def register_nodes(self) -> None:
        """Register the public keys of all nodes."""
        if self.keys is not None:
            for path in sorted(self.keys.glob("*.pub")):
                with suppress(RuntimeError):  # it is registered already
                    self.flwr("supernode", "register", str(path))

    def stop_runs(self) -> None:
        """End the runs of servers that were killed.

        Nodes would wait for the rest of calls that were not sent in full until Flower, which hears
        no more from their server, ends the run within a minute.
        """
        for run in json.loads(self.flwr("list"))["runs"]:
            if not run["status"].startswith("finished"):
                self.flwr("stop", str(run["run-id"]))

    def submit(self, client_app: str = _CLIENT_APP) -> None:
        """Submit a run of this ClientApp, by default one that has a share of a data set."""
        app = self.folder / "app"
        app.mkdir(parents=True, exist_ok=True)
        files = {"pyproject.toml": _APP, "server.py": _SERVER_APP, "client.py": client_app}
        for name, text in files.items():
            (app / name).write_text(text)
        self.flwr("run", str(app))


@contextmanager
def running(link: SuperLink, say: Callable[[str], None]) -> Iterator[None]:
    """Run a SuperLink as long as the block lasts."""
    link.write_config()
    _end_old(link.database)
    if link.answers():
        raise BadInput("port", link.port, "is taken by another SuperLink")
    watcher = _Watcher(link, say)
    try:
        watcher.begin()
        yield
    finally:
        watcher.end()


class _Watcher:
    """Starts a SuperLink, and starts it again when it ends: nodes wait for it for a minute."""

    def __init__(self, link: SuperLink, say: Callable[[str], None]) -> None:
        self._link, self._say = link, say
        self._child: subprocess.Popen[bytes] | None = None
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def begin(self) -> None:
        self._start()
        until = time.monotonic() + _PATIENCE
        while not self._link.answers():
            child = self._child
            assert child is not None
            gone = child.poll() is not None or time.monotonic() > until
            log = self._link.folder / "superlink.log"
            need(not gone, "port", self._link.port, f"the SuperLink did not start; see {log}")
            time.sleep(0.1)
        self._thread.start()

    def end(self) -> None:
        self._leaving.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._child is not None:
            _end(self._child)

    def _start(self) -> None:
        with (self._link.folder / "superlink.log").open("ab") as log:
            self._child = subprocess.Popen(
                self._link.command,
                env=self._link.environment,
                cwd=self._link.folder,
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


def _end(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    try:
        child.wait(10.0)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _end_old(database: Path) -> None:
    """End the SuperLink that a killed server left: nobody else has this database."""
    for number in _processes(database):
        with suppress(OSError):
            os.kill(number, signal.SIGTERM)
    while _processes(database):
        time.sleep(0.05)


def _processes(database: Path) -> list[int]:
    """Numbers of the SuperLinks with this database; those that have ended have no command line."""
    words, found = b"\0--database\0" + os.fsencode(database) + b"\0", []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended meanwhile
            if words in path.read_bytes():
                found.append(int(path.parent.name))
    return found


def _program(name: str) -> str:
    """One of Flower's programs: that of this environment, or the first on the path."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.is_file() else shutil.which(name)
    if found is None:
        raise BadInput("flower", name, "no such program; pip install 'favano[flower]'")
    return found
