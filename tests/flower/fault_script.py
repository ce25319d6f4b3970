"""Fault scripts: who fails, when and how. Faults happen in the order in which they are written.

    [[fault]]
    who = "node 2"    # or "client app 2", that of node 2, or "server", or "superlink"
    when = "round 5"  # or "10 s", so long after the fault before
    what = "kill"     # or "hang", "continue", "leave" (SIGTERM), "start"

A node whose first fault is a start joins late. A server that is started again goes on.
"""

from __future__ import annotations

import os
import re
import signal
import time
import tomllib
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple, Protocol

from favano.errors import BadInput, require
from tests.flower.federation import wait_for

_KEYS = {"who", "when", "what"}
_WHO = re.compile(r"server|superlink|(node|client app) \d+")
_WHEN = re.compile(r"round (\d+)|(\d+(?:\.\d+)?) s")
_SIGNALS = {
    "kill": signal.SIGKILL, "hang": signal.SIGSTOP, "continue": signal.SIGCONT,
    "leave": signal.SIGTERM,
}  # fmt: skip
_START = "start"
_WORDS = ", ".join([*_SIGNALS, _START])


class Fault(NamedTuple):
    """One line of a script."""

    who: str
    when: str
    what: str


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
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadInput("script", text.partition("\n")[0], f"is not TOML: {error}") from error
    tables = document.get("fault")
    right = document.keys() == {"fault"} and isinstance(tables, list)
    require(right, "script", list(document), "need tables [[fault]], and nothing else")
    return [_fault(table) for table in tables or ()]


def late_nodes(faults: Sequence[Fault]) -> set[int]:
    """Nodes that are not there when the script begins."""
    first = {fault.who: fault.what for fault in reversed(faults)}
    nodes = (who for who, what in first.items() if who.startswith("node ") and what == _START)
    return {int(who.removeprefix("node ")) for who in nodes}


def play(faults: Sequence[Fault], stage: Stage) -> None:
    """Let everything happen."""
    for who, when, what in faults:
        _wait(when, stage)
        if what == _START:
            stage.start(who)
            continue
        for process in wait_for(partial(stage.processes, who), who):
            os.kill(process, _SIGNALS[what])


def _fault(table: object) -> Fault:
    named = isinstance(table, dict) and table.keys() == _KEYS
    require(named, "fault", table, "need who, when and what, and nothing else")
    assert isinstance(table, dict)
    who, when, what = (str(table[key]) for key in Fault._fields)
    rule = "need server, superlink, node N or client app N"
    require(bool(_WHO.fullmatch(who)), "who", who, rule)
    require(bool(_WHEN.fullmatch(when)), "when", when, "need round N or SECONDS s")
    require(what in (*_SIGNALS, _START), "what", what, f"need one of {_WORDS}")
    startable = what != _START or who == "server" or who.startswith("node ")
    require(startable, "who", who, "is started by others; need server or node N for a start")
    return Fault(who, when, what)


def _wait(when: str, stage: Stage) -> None:
    match = _WHEN.fullmatch(when)
    assert match is not None
    if match[1] is None:
        time.sleep(float(match[2]))
    else:
        wait_for(lambda: int(match[1]) <= max(stage.rounds(), default=-1), when)
