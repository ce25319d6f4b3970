"""Fault scripts, played in a federation of processes; `favano.timing.faults` reads them.

Here nodes, client apps, the server and the SuperLink are killed, hang, continue, leave
(SIGTERM) and are started.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from functools import partial
from typing import Protocol

from favano.timing import faults
from favano.timing.faults import START, ScriptedFault
from tests.flower.federation import wait_for

Fault = ScriptedFault
_SIGNALS = {
    "kill": signal.SIGKILL, "hang": signal.SIGSTOP, "continue": signal.SIGCONT,
    "leave": signal.SIGTERM,
}  # fmt: skip


class Stage(Protocol):
    """Where a script is played."""

    def rounds(self) -> Sequence[int]:
        """Rounds so far."""

    def processes(self, who: str) -> Sequence[int]:
        """The processes of somebody."""

    def start(self, who: str) -> None:
        """Start somebody, for the first time or again."""


def read_script(text: str) -> list[Fault]:
    """The faults of a script; wrong words are refused."""
    return faults.read_script(text, [*_SIGNALS, START])


def late_nodes(script: Sequence[Fault]) -> set[int]:
    """Nodes that are not there when the script begins."""
    first = {fault.who: fault.what for fault in reversed(script)}
    nodes = (who for who, what in first.items() if who.startswith("node ") and what == START)
    return {int(who.removeprefix("node ")) for who in nodes}


def play(script: Sequence[Fault], stage: Stage) -> None:
    """Let everything happen."""
    for fault in script:
        who, _, what = fault
        _wait(fault, stage)
        if what == START:
            stage.start(who)
            continue
        for process in wait_for(partial(stage.processes, who), who):
            os.kill(process, _SIGNALS[what])


def _wait(fault: Fault, stage: Stage) -> None:
    number, seconds = fault.moment
    time.sleep(seconds)
    if number is not None:
        wait_for(lambda: number <= max(stage.rounds(), default=-1), fault.when)
