"""Real federations whose nodes, client apps, SuperLink and server are killed by a script.

Each of them ends; what was accepted is used; the simulator makes the same models of the trace, also
the ones that servers left in their checkpoints when they were killed.
"""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

pytest.importorskip("flwr")

import torch

from favano.flower.strategy import CHECKPOINT, JOURNAL
from favano.records.checkpoint import checkpoint_from_bytes
from favano.run.replay import divergence, replayed
from favano.schedule.contact_trace import load_trace
from favano.types import Vector
from tests.flower.fault_script import late_nodes, play, read_script
from tests.flower.federation import federation, free_port, wait_for
from tests.flower.loopback import PACES, Loopback

NODES = """
[[fault]]
who = "node 0"
when = "round 3"
what = "kill"

[[fault]]
who = "node 0"
when = "0 s"
what = "start"

[[fault]]
who = "node 1"
when = "round 5"
what = "hang"

[[fault]]
who = "node 3"
when = "0 s"
what = "start"

[[fault]]
who = "node 1"
when = "10 s"
what = "continue"

[[fault]]
who = "node 2"
when = "round 40"
what = "leave"
"""
SERVER = """
[[fault]]
who = "server"
when = "round 4"
what = "kill"

[[fault]]
who = "server"
when = "0 s"
what = "start"

[[fault]]
who = "server"
when = "round 7"
what = "hang"

[[fault]]
who = "server"
when = "3 s"
what = "continue"

[[fault]]
who = "server"
when = "round 10"
what = "kill"

[[fault]]
who = "server"
when = "2 s"
what = "start"
"""
SUPERLINK = """
[[fault]]
who = "superlink"
when = "round 4"
what = "kill"
"""
TOLD_TO_END = """
[[fault]]
who = "server"
when = "round 4"
what = "leave"

[[fault]]
who = "server"
when = "0 s"
what = "start"
"""
CLIENT_APP = """
[[fault]]
who = "client app 3"
when = "round 1"
what = "continue"       # as soon as there is one

[[fault]]
who = "client app 3"
when = "8 s"
what = "kill"
"""


class Left(NamedTuple):
    """What a server has left on disk."""

    version: int
    model: Vector
    events: list[list[object]]
    waiting: set[int]  # jobs that are not used yet
    here: set[int]  # jobs whose replies are in the journal

    @property
    def answered(self) -> set[int]:
        """Jobs whose updates were accepted."""
        return {int(str(event[2])) for event in self.events if event[0] == "UsedUpdate"}


def left_in(folder: Path) -> Left:
    checkpoint, journal = folder / CHECKPOINT, folder / JOURNAL
    tree = checkpoint_from_bytes((checkpoint / "state.checkpoint").read_bytes())
    assert isinstance(tree, list)
    text, server, _, starts, *_ = tree
    standing = json.loads(str(text))
    model = checkpoint_from_bytes((checkpoint / str(server)).read_bytes())
    assert isinstance(model, np.ndarray)
    count, _ = standing["events"]
    lines = (checkpoint / "events.jsonl").read_text().splitlines()[:count]
    calls = standing["calls"].items()
    here = {int(job) for job, call in calls if (journal / f"{call}.reply").is_file()}
    waiting = set(map(int, json.loads(str(starts))))
    events = list(map(json.loads, lines))
    return Left(standing["version"], torch.from_numpy(model), events, waiting, here)


def lived(folder: Path, script: str, *, stock: tuple[int, ...] = (), **flags: object) -> Loopback:
    """A federation that comes to its end, whatever the script says."""
    faults = read_script(script)
    with federation(folder) as lab:
        loopback = Loopback(lab, stock=stock, **flags)
        loopback.start("server")
        for number in set(range(len(PACES))) - late_nodes(faults):
            loopback.join(number)
        play(faults, loopback)
        loopback.finish()
    return loopback


def check(loopback: Loopback, rounds: int) -> Left:
    """Nothing that was accepted is lost, and the simulator agrees."""
    folder = loopback.lab.folder
    end, trace = left_in(folder), load_trace(folder / "trace.npz").schedule
    assert (end.version + 1, len(trace.time)) == (rounds, rounds)
    assert sorted(set(loopback.rounds())) == list(range(rounds + 1))
    assert len(end.answered - end.waiting) == (trace.used_by < rounds).sum()
    final, models = replayed(folder)
    versions = list(models)
    assert divergence(final, versions[-1]).equal
    for copy in map(left_in, loopback.copies):
        assert end.events[: len(copy.events)] == copy.events
        assert copy.answered | copy.here <= end.answered - end.waiting
        assert divergence(copy.model, versions[copy.version + 1]).equal
    return end


@pytest.mark.machine
def test_nodes_may_die_hang_leave_and_join_late(tmp_path: Path) -> None:
    """Within a minute Flower tells of the death, and the node takes its place again."""
    end = check(lived(tmp_path, NODES, tick=2.0, rounds=44), 44)
    joined = [(event[2], event[3]) for event in end.events if event[0] == "Joined"]
    left = [event[2] for event in end.events if event[0] == "Left"]
    assert len(set(joined)) == 5
    assert {client for client, _ in joined} == {0, 1, 2, 3}
    assert len(set(left)) == 2


@pytest.mark.machine
def test_a_server_may_be_killed_and_hang(tmp_path: Path) -> None:
    loopback = lived(tmp_path, SERVER, tick=2.0, rounds=18)
    assert len(loopback.copies) == 2
    check(loopback, 18)


@pytest.mark.machine
def test_a_server_may_be_told_to_end(tmp_path: Path) -> None:
    """It says so in one line, and no round that it told of is made again."""
    loopback = lived(tmp_path, TOLD_TO_END, tick=2.0, rounds=10)
    first, second = (loopback.lab.log(server) for server in loopback.servers)
    assert loopback.servers[0].returncode == 128 + signal.SIGTERM
    assert first.splitlines()[-1].startswith("favano: stopped; go on with: favano serve --resume")
    assert all(line.startswith("favano: ") for line in first.splitlines())
    ends = [dict(re.findall(r"round (\d+): (.*)", log)) for log in (first, second)]
    assert min(map(int, ends[1])) >= max(map(int, ends[0]))
    assert {**ends[1], **ends[0]} == {**ends[0], **ends[1]}
    check(loopback, 10)


@pytest.mark.machine
def test_a_second_server_in_a_folder_is_refused(tmp_path: Path) -> None:
    """And the first one keeps its SuperLink."""
    with federation(tmp_path) as lab:
        first, other = Loopback(lab), Loopback(lab, port=free_port())
        first.serve()
        wait_for(lambda: "status at" in first.told, "the first server")
        before = first.processes("superlink")
        other.serve()
        assert other.servers[0].wait() == 2
        assert other.told == (
            f"favano: folder={lab.folder}: another process is at work in this folder; wait for it, "
            "or choose a new folder\n"
        )
        assert first.processes("superlink") == before != []
        assert "ended" not in first.told


@pytest.mark.machine
def test_models_may_be_packed_meanwhile(tmp_path: Path) -> None:
    """With few bits and falling rates; a node and the server are killed."""
    flags: dict[str, Any] = {
        "quantise": "luq", "rate_schedule": "cosine", "rate_length": 60, "codec": "lattice",
        "codec_scale": 0.001, "codec_dither": True,
    }  # fmt: skip
    death = NODES.partition('[[fault]]\nwho = "node 1"')[0]
    check(lived(tmp_path, death + SERVER, tick=2.0, rounds=18, **flags), 18)
    assert set(load_trace(tmp_path / "trace.npz").whole) == {0.0, 1.0}


@pytest.mark.machine
def test_a_superlink_may_be_killed(tmp_path: Path) -> None:
    loopback = lived(tmp_path, SUPERLINK, tick=2.0, rounds=14)
    assert "the SuperLink ended, and is started again" in loopback.told
    check(loopback, 14)


@pytest.mark.machine
def test_a_client_app_may_be_killed(tmp_path: Path) -> None:
    """Within a minute Flower starts it again or tells of its end; then its node is called again."""
    flags = {"tick": 10.0, "grace": 4.0, "local_steps": 100, "rounds": 12}
    end = check(lived(tmp_path, CLIENT_APP, stock=(3,), **flags), 12)
    updates = [event for event in end.events if event[0] == "UsedUpdate" and event[5] == 3]
    assert len(updates) > 1  # one of them since then
