"""A SuperLink and nodes on loopback, in a folder of their own; nothing of them is left behind."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from favano.flower.private import ClaimedRun, claimed_run
from favano.flower.safe_pull import open_reply, replies_of
from favano.flower.superlink import SuperLink

T = TypeVar("T")
_MARK = "FAVANO_FEDERATION"  # by this variable, all processes of a federation are known
_ACTOR = "FAVANO_ACTOR"  # and by this one, what they are in it
_PATIENCE = 600.0  # seconds, after which something will never come: a busy machine is slow
_SHARED = Path("/tmp")  # where programs write that do not ask where


class Federation:
    """A SuperLink whose runs are served by this process, and processes that are its nodes."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.address = f"127.0.0.1:{self.port}"
        self._children: list[subprocess.Popen[bytes]] = []
        self._there_before = set(_SHARED.iterdir())
        home = Path(__file__).parents[2]
        programs = Path(sys.executable).parent
        self._places = {"HOME": folder / "home", "TMPDIR": folder / "temporary"}
        for place in self._places.values():
            place.mkdir()
        self.link = SuperLink(folder, port=self.port)
        self.environment = {
            **self.link.environment,
            **{name: str(place) for name, place in self._places.items()},
            _MARK: str(folder),
            "OMP_NUM_THREADS": "1",
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(
                [str(home / "src"), str(home), os.environ.get("PYTHONPATH", "")]
            ),
        }

    def start_superlink(
        self, client_app: str | None = None, *, keys: Path | None = None
    ) -> subprocess.Popen[bytes]:
        """Start the SuperLink, with TLS if there are keys, and wait until it answers."""
        app = client_app or self.link.client_app
        self.link = replace(self.link, keys=keys, client_app=app)
        self.link.write_files()
        return self._answering(self.start(*self.link.command))

    def start_stock_superlink(self) -> subprocess.Popen[bytes]:
        """Start Flower's own SuperLink, without a door, for `flwr`."""
        home = self.folder / "flower"
        home.mkdir()
        text = f'[superlink.favano]\naddress = "{self.address}"\ninsecure = true\n'
        (home / "config.toml").write_text(text)
        place = ("--host", "127.0.0.1", "--port", str(self.port))
        return self._answering(self.start("flower-superlink", "--insecure", *place))

    def _answering(self, child: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
        def answers() -> bool:
            assert child.poll() is None, self.log(child)
            return self.link.answers()

        wait_for(answers, "the SuperLink")
        return child

    def start(self, program: str, *arguments: str, actor: str = "") -> subprocess.Popen[bytes]:
        """Start a program of its own group that writes to a file."""
        number = len(self._children)
        with (self.folder / f"{number:02d}-{Path(program).name}.log").open("wb") as log:
            child = subprocess.Popen(
                [program, *arguments],
                env={**self.environment, _ACTOR: actor},
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._children.append(child)
        return child

    def python(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a Python program that is given as text."""
        return self.start(sys.executable, "-c", program, *arguments)

    def log(self, child: subprocess.Popen[bytes]) -> str:
        """What a child has written so far."""
        number = self._children.index(child)
        (path,) = self.folder.glob(f"{number:02d}-*.log")
        return path.read_text(errors="replace")

    def stock_node(
        self, config: str = "", *options: str, actor: str = ""
    ) -> subprocess.Popen[bytes]:
        """A SuperNode of Flower's own."""
        secure = any(option.startswith("--root-certificates") for option in options)
        plain = [] if secure else ["--insecure"]
        there = ["--superlink", self.address, "--host", "127.0.0.1", "--port", str(free_port())]
        config = config or "partition-id=0"
        words = (*plain, *there, "--node-config", config, *options)
        return self.start("flower-supernode", *words, actor=actor)

    def flwr(self, *arguments: str) -> dict[str, Any]:
        """What one of Flower's commands says of its own SuperLink."""
        done = subprocess.run(
            ["flwr", *arguments, "favano", "--format", "json"],
            env=self.environment, cwd=self.folder, capture_output=True, text=True, check=True,
        )  # fmt: skip
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    @contextmanager
    def served(self) -> Iterator[ClaimedRun]:
        """Be the server of the run that was submitted."""
        with ExitStack() as stack:

            def claim() -> ClaimedRun | None:
                claimed: AbstractContextManager[ClaimedRun | None] = claimed_run(self.link.door)
                return stack.enter_context(claimed)

            yield wait_for(claim, "a run")

    def left_behind(self) -> list[Path]:
        """Files that are not in its folder.

        They are in what is home and temporary to its programs, or in the folder that all programs
        share, with the number of a process in their names.
        """
        children = {str(child.pid) for child in self._children}
        new = set(_SHARED.iterdir()) - self._there_before
        strays = [path for path in new if _numbers(path.name) & children]
        return [*strays, *(path for place in self._places.values() for path in place.iterdir())]

    def close(self) -> None:
        """End all children, and all of theirs."""
        for way in (signal.SIGTERM, signal.SIGKILL):
            for process in self.alive():
                with suppress(ProcessLookupError):
                    os.kill(process, way)
            until = time.monotonic() + 5.0
            while self.alive() and time.monotonic() < until:
                for child in self._children:
                    child.poll()
                time.sleep(0.02)
        for child in self._children:
            child.wait()

    def alive(self, program: str = "", actor: str = "") -> list[int]:
        """Processes that were started here, directly or not: of a program, of an actor, or all."""
        marks = {f"{_MARK}={self.folder}".encode()}
        if actor:
            marks.add(f"{_ACTOR}={actor}".encode())
        processes = []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                ours = marks <= set((path / "environ").read_bytes().split(b"\0"))
                if ours and program.encode() in (path / "cmdline").read_bytes():
                    processes.append(int(path.name))
            except OSError:  # it has ended, or is somebody else's
                continue
        return processes


@contextmanager
def federation(folder: Path) -> Iterator[Federation]:
    """A federation that is gone when the block ends."""
    made = Federation(folder)
    try:
        yield made
    finally:
        made.close()
        assert made.alive() == []


def _numbers(name: str) -> set[str]:
    return set(re.findall(r"\d+", name))


def nodes(grid: Any, count: int) -> Sequence[int]:
    """Flower's numbers of the nodes, as soon as there are so many."""

    def enough() -> list[int]:
        present = sorted(grid.get_node_ids())
        return present if len(present) >= count else []

    return wait_for(enough, f"{count} nodes")


def replies(grid: Any, names: Sequence[str]) -> list[Any]:
    """All replies to these messages, read as the server reads them."""
    inbox, here = replies_of(grid), list[Any]()

    def complete() -> bool:
        done = {reply.metadata.reply_to_message_id for reply in here}
        for head in inbox.arrived([name for name in names if name not in done]):
            here.append(open_reply(head, inbox.fetch(head, 1 << 30, lambda: True)))
            inbox.confirm(head)
        return len(here) == len(names)

    wait_for(complete, "replies", pause=0.01)
    return here


def wait_for(look: Callable[[], T | None], what: str, pause: float = 0.05) -> T:
    """What is found, as soon as it is."""
    until = time.monotonic() + _PATIENCE
    while not (value := look()):
        assert time.monotonic() < until, f"waited {_PATIENCE:g} s for {what}"
        time.sleep(pause)
    return value


def free_port() -> int:
    """A port on loopback that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
