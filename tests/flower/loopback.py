"""A federation that learns the digits, by its commands: `favano serve` and `favano join`."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from favano.flower.strategy import CHECKPOINT, JOURNAL
from tests.flower.federation import Federation, wait_for

FAVANO = (sys.executable, "-m", "favano")
KEYS = {
    "dataset": "digits", "split": "iid", "clients": 4, "selected": 3, "learning_rate": 0.7,
    "local_steps": 10, "batch_size": 32,
}  # fmt: skip
PACES = (0.02, 0.04, 0.08, 0.2)  # seconds of a step


class Loopback:
    """A server and nodes of different speeds, some of them stock ones.

    `flags` are those of the server. What a server that was killed has left is copied before another
    goes on with it.
    """

    def __init__(self, lab: Federation, *, stock: Collection[int] = (), **flags: object) -> None:
        self.lab, self._stock = lab, stock
        more = {"tick": 1.0, "grace": 0.5, "port": lab.port, "out": lab.folder}
        self._flags = words({**KEYS, **more, **flags})
        self.servers: list[subprocess.Popen[bytes]] = []
        self.copies: list[Path] = []

    def start(self, who: str) -> None:
        """Start a node, or the server, which goes on if there was one."""
        if who.startswith("node "):
            self.join(int(who.removeprefix("node ")))
        elif self.servers:
            self.servers[-1].wait()
            self._copy()
            self.serve("--resume")
        else:
            self.serve()

    def processes(self, who: str) -> list[int]:
        """The processes of the server, the SuperLink, a node, or a node's client app."""
        match who.split():
            case ["server"]:
                return [self.servers[-1].pid]
            case ["superlink"]:
                return self.lab.alive("favano.flower.door")
            case ["client", "app", number]:
                return self.lab.alive("flwr-clientapp", actor=f"node {number}")
        return self.lab.alive(actor=who)

    def serve(self, *more: str) -> None:
        """Start the server."""
        self.servers.append(self.lab.start(*FAVANO, "serve", *self._flags, *more, actor="server"))

    def join(self, number: int, *more: str) -> subprocess.Popen[bytes]:
        """Start a node."""
        part = f"{number}/{len(PACES)}"
        share = words({"partition": part, "split": KEYS["split"], "pace": PACES[number]})
        if number in self._stock:
            share.append("--by-appointment")
        command = (*FAVANO, "join", self.lab.address, *share, *more)
        return self.lab.start(*command, actor=f"node {number}")

    def rounds(self) -> list[int]:
        """Rounds that servers have told of."""
        return [int(number) for number in re.findall(r"round (\d+): loss", self.told)]

    @property
    def told(self) -> str:
        """All that servers have said."""
        return "".join(map(self.lab.log, self.servers))

    def finish(self) -> str:
        """Wait for the end of the server, and return the accuracy of its model as it says it."""
        serving = self.servers[-1]
        wait_for(lambda: serving.poll() is not None, "the end")
        assert serving.returncode == 0, self.told
        return str(re.findall(r"accuracy ([\d.]+)", self.told)[-1])

    def dismiss(self, nodes: Iterable[subprocess.Popen[bytes]]) -> None:
        """Tell nodes to end, and wait until they have."""
        for node in nodes:
            node.send_signal(signal.SIGTERM)
        for node in nodes:
            node.wait()

    def _copy(self) -> None:
        copy = self.lab.folder / f"copy {len(self.copies)}"
        for name in (CHECKPOINT, JOURNAL):
            shutil.copytree(self.lab.folder / name, copy / name)
        self.copies.append(copy)


def joined(told: str) -> set[str]:
    """Numbers of the nodes that a server tells of; on a busy machine, some join again."""
    return set(re.findall(r"joins \(node (\d+)\)", told))


def words(flags: Mapping[str, object]) -> list[str]:
    """Values by name as words of a command line; True stands for a flag alone, None for none."""
    given = {name: value for name, value in flags.items() if value is not None}
    pairs = ((f"--{name.replace('_', '-')}", value) for name, value in given.items())
    return [str(word) for pair in pairs for word in pair if word is not True]
