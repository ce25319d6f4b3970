"""Fault scripts: who fails, when and how. Faults happen in the order in which they are written.

    [[fault]]
    who = "node 3"    # or "nodes 0-9", or "10 % of nodes", the same ones in a whole script
    when = "round 5"  # or "10 s", so long after the fault before
    what = "leave"    # or "start", "crash", "slow 3", "lose", ...

A node whose first fault is a start joins late. Federations are tested with the same scripts; there
the server, the SuperLink and client apps fail, too. In simulations a second is a unit of time.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple, get_args

import numpy as np

from favano.errors import BadInput, require
from favano.file_sizes import read_given
from favano.rng import Stream, bits
from favano.timing.conditions import Fault, FaultKind

START = "start"
_SAME: Final = {"kill": "leave"}  # a client that is killed is gone, as one that says so
_VALUES: Final = {"slow": "a positive factor", "late": "a positive time", "poison": "a factor"}
_KEYS = {"who", "when", "what"}
_NUMBER = r"-?\d+(?:\.\d+)?(?:e-?\d+)?"
_WHEN = re.compile(r"round (\d{1,9})|(\d+(?:\.\d+)?) s")
_NODES = re.compile(r"node (\d{1,9})|nodes (\d{1,9})-(\d{1,9})|(\d+(?:\.\d+)?) % of nodes")
_WHO = re.compile(rf"server|superlink|client app \d{{1,9}}|{_NODES.pattern}")
_ELSEWHERE = "is a process of a federation, which simulations do not have; need nodes"


class ScriptedFault(NamedTuple):
    """One table of a script."""

    who: str
    when: str
    what: str

    @property
    def moment(self) -> tuple[int | None, float]:
        """The round that it waits for, if it does, and how long after the fault before."""
        match = _WHEN.fullmatch(self.when)
        assert match is not None
        return (int(match[1]), 0.0) if match[1] else (None, float(match[2]))


def read_script(text: str, words: Sequence[str]) -> list[ScriptedFault]:
    """The faults of a script, of which these may happen; wrong words are refused."""
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput("script", text.partition("\n")[0], f"is not TOML: {error}") from error
    tables = document.get("fault")
    right = document.keys() == {"fault"} and isinstance(tables, list)
    require(right, "script", list(document), "need tables [[fault]], and nothing else")
    return [_fault(table, words) for table in tables or ()]


def read_faults(path: str, clients: int, seed: int) -> tuple[Fault, ...]:
    """The faults of a simulation with so many clients."""
    text = read_given(Path(path), "faults", path)
    script = read_script(
        text, [*(kind for kind in get_args(FaultKind) if kind != "timeout"), *_SAME]
    )
    order = np.argsort(bits(seed, Stream.FAULTS, np.arange(clients)), kind="stable").tolist()
    return tuple(_of_nodes(fault, order) for fault in script)


def _fault(table: object, words: Sequence[str]) -> ScriptedFault:
    named = isinstance(table, dict) and table.keys() == _KEYS
    require(named, "fault", table, "need who, when and what, and nothing else")
    assert isinstance(table, dict)
    who, when, what = (str(table[key]) for key in ScriptedFault._fields)
    rule = "need server, superlink, node N or client app N, or nodes M-N, or P % of nodes"
    require(bool(_WHO.fullmatch(who)), "who", who, rule)
    require(bool(_WHEN.fullmatch(when)), "when", when, "need round N or SECONDS s")
    word, _, value = what.partition(" ")
    require(word in words, "what", what, f"need one of {', '.join(words)}")
    rule = f"need {word} and {_VALUES[word]}" if word in _VALUES else f"need {word} alone"
    require(bool(re.fullmatch(_NUMBER if word in _VALUES else "", value)), "what", what, rule)
    good = word not in ("slow", "late") or float(value) > 0
    require(good and (not value or abs(float(value)) < 1e30), "what", what, rule)
    startable = what != START or who == "server" or "node" in who
    require(startable, "who", who, "is started by others; need server or node N for a start")
    return ScriptedFault(who, when, what)


def _of_nodes(fault: ScriptedFault, order: Sequence[int]) -> Fault:
    """A fault of these clients; `order` is that in which parts of them are drawn."""
    match, clients = _NODES.fullmatch(fault.who), len(order)
    require(match is not None, "who", fault.who, _ELSEWHERE)
    assert match is not None
    if match[4] is not None:
        share = float(match[4]) / 100
        require(0 < share <= 1, "who", fault.who, "need more than 0 and at most 100 %")
        nodes = sorted(order[: max(1, round(share * clients))])
    else:
        first, last = int(match[1] or match[2]), int(match[1] or match[3])
        rule = f"need nodes of 0..{clients - 1}, the lower number first"
        require(first <= last < clients, "who", fault.who, rule)
        nodes = list(range(first, last + 1))
    word, _, value = fault.what.partition(" ")
    steps, after = fault.moment
    kind: FaultKind = _SAME.get(word, word)  # type: ignore[assignment]
    return Fault(tuple(nodes), kind, after, steps or 0, float(value or 1.0))
