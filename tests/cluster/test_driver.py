"""The driver with nodes that follow a script: losses, nodes that are out, and what is said."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from favano.cluster.driver import Driver, PackLost
from favano.cluster.gathering import Gathering
from favano.cluster.messages import Began, Ended, Message, Order, PackRefused
from favano.cluster.packs import Pack, PackedRun, Slot
from favano.errors import BadInput, ClusterLost
from favano.results import Result
from favano.run.checkpoints import Checkpoints
from favano.run.progress import Silence
from favano.specification.presets import resolve
from tests.specs import spec_of

SPECS = [resolve(spec_of(clients=4, selected=2, horizon=30.0, label=f"m{n}")) for n in range(3)]
GONE = PackLost("node b was lost", "unusable")
SHORT = PackLost("node b has too little memory", "short")
KILLED = PackLost("a process on node b was killed")
NO_GPU = PackRefused(BadInput("device", "cuda", "PyTorch sees no CUDA device here"))


class Started(NamedTuple):
    """A pack on a node."""

    number: int
    node: str
    order: Order


class Script:
    """Nodes that end each pack at once, but for what the script says of a node."""

    def __init__(self, nodes: str, **script: list[Message | PackLost]) -> None:
        self.alive, self.script = list(nodes), script
        self.started: list[Started] = []
        self._sent: set[tuple[int, int]] = set()

    def slots(self) -> list[Slot]:
        return [Slot(node, 1) for node in self.alive]

    def name(self, node: str) -> str:
        return f"node {node}"

    def start(self, order: Order, slot: Slot) -> int:
        started = Started(len(self.started), slot.node, order)
        self.started.append(started)
        return started.number

    def ready(self, streams: Sequence[int], seconds: float) -> list[int]:
        return list(streams)

    def message(self, stream: int, node: str) -> Message | None:
        started = self.started[stream]
        if self.script.get(node):
            message = self.script[node].pop(0)
            if isinstance(message, PackLost):
                if message.node == "unusable":
                    self.alive.remove(node)
                raise message
            return message
        for number, asked in started.order.asked.items():
            key = stream, number
            if key not in self._sent:
                self._sent.add(key)
                return Ended(number, asked.seeds, Result.of(SPECS[number]))
        return None

    def cancel(self, streams: Sequence[int]) -> None: ...


class Told(NamedTuple):
    """What a command was told, and which results have ended."""

    sentences: list[str]
    finished: list[Result]


def driven(script: Script, packs: int = 2) -> Told:
    nowhere = [Path("no-folder")] * len(SPECS)
    told = Told([], [])
    gathering = Gathering(
        [Result.of(spec) for spec in SPECS], [None] * len(SPECS), Silence(), told.finished.append,
        False, Checkpoints(nowhere, None, told.sentences.append),
    )  # fmt: skip
    work = [Pack(1.0, [PackedRun(number, 0, 5)]) for number in range(packs)]
    gathering.begin(work)
    Driver(gathering, script, work).finish()
    return told


def test_all_packs_are_run() -> None:
    script = Script("ab")
    assert len(driven(script, 3).finished) == 3
    assert [started.node for started in script.started] == ["a", "b", "a"]


@pytest.mark.parametrize(
    ("loss", "sentence"),
    [(GONE, "node b was lost"), (SHORT, "node b has too little memory"),
     (KILLED, "a process on node b was killed")],
    ids=["gone", "short", "killed"],
)  # fmt: skip
def test_what_was_lost_goes_on(loss: PackLost, sentence: str) -> None:
    told = driven(Script("ab", b=[Began(5), loss]))
    assert len(told.finished) == 2
    assert told.sentences == [f"{sentence}; its run goes on from its last checkpoint"]


def test_a_node_that_is_short_of_memory_gets_no_more_while_there_are_others() -> None:
    script = Script("ab", b=[SHORT])
    assert len(driven(script, 3).finished) == 3
    assert [started.node for started in script.started].count("b") == 1
    alone = Script("b", b=[SHORT])
    assert len(driven(alone, 2).finished) == 2


def test_a_node_that_refuses_is_left_out_and_the_others_go_on() -> None:
    script = Script("ab", b=[NO_GPU])
    told = driven(script, 3)
    assert len(told.finished) == 3
    (said,) = told.sentences
    assert said.startswith("node b refuses: device=cuda: PyTorch sees no CUDA device here; its run")
    assert [started.node for started in script.started].count("b") == 1


def test_if_all_refuse_the_last_refusal_is_raised() -> None:
    with pytest.raises(BadInput, match="PyTorch sees no CUDA device here"):
        driven(Script("b", b=[NO_GPU]))


def test_what_no_node_could_do_ends_the_command() -> None:
    with pytest.raises(BadInput, match="batch_size=0"):
        driven(Script("ab", b=[PackRefused(BadInput("batch_size", 0, "need 1"))]))


def test_if_all_nodes_are_lost_the_command_ends() -> None:
    with pytest.raises(ClusterLost, match="all nodes of the cluster are lost; checkpoints are"):
        driven(Script("b", b=[GONE]))


def test_a_pack_that_is_always_lost_ends_the_command() -> None:
    with pytest.raises(ClusterLost, match="the same run were lost again and again: a process on"):
        driven(Script("b", b=[KILLED] * 3), 1)
