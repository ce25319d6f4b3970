"""Gives packs to the slots of a cluster; packs that are lost go to other slots."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, Literal, NamedTuple, Protocol, TypeVar

from favano.cluster.gathering import Gathering
from favano.cluster.messages import Message, Order, PackRefused
from favano.cluster.packs import Pack, Slot, next_pack
from favano.errors import BadInput, ClusterLost

_LOOK: Final = 1.0  # seconds without a message, after which the nodes are looked at again
_OF_NODE: Final = ("cluster", "device")  # what only one node may be unable to do
After = Literal["usable", "short", "unusable"]
KEPT: Final = "checkpoints are kept; repeat the command to go on"


class PackLost(RuntimeError):
    """A pack has ended without its results.

    Args:
        reason: what happened.
        node: what becomes of its node. One that is `short` of memory has other packs only while
            there is no better one.
    """

    def __init__(self, reason: str, node: After = "usable") -> None:
        super().__init__(reason)
        self.node = node


Stream = TypeVar("Stream")  # the messages of a pack that is under way


class Nodes(Protocol[Stream]):
    """The nodes of a cluster, as the driver sees them."""

    def slots(self) -> list[Slot]:
        """Places for packs on nodes that are alive and were found to be right."""

    def name(self, node: str) -> str:
        """What the user knows a node by."""

    def start(self, order: Order, slot: Slot) -> Stream:
        """Begin a pack."""

    def ready(self, streams: Sequence[Stream], seconds: float) -> Collection[Stream]:
        """Those that have something to say; waits for one, but no longer than this."""

    def message(self, stream: Stream, node: str) -> Message | None:
        """The next message; None at the end. Raises `PackLost`."""

    def cancel(self, streams: Sequence[Stream]) -> None:
        """End packs."""


class _Busy(NamedTuple):
    slot: Slot
    pack: Pack


@dataclass
class Driver(Generic[Stream]):
    """Packs that wait, and packs that slots are at."""

    gathering: Gathering
    nodes: Nodes[Stream]
    waiting: list[Pack]
    _busy: dict[Stream, _Busy] = field(default_factory=dict)
    _excluded: dict[str, After] = field(default_factory=dict)  # nodes that had losses
    _refusal: BadInput | None = None  # of the last node that could not

    def finish(self) -> None:
        """Run all packs; raises `ClusterLost` if no node is left."""
        self._fill_slots()
        while self._busy:
            ready = self.nodes.ready(list(self._busy), _LOOK)
            ended = [stream for stream in ready if not self._listen(stream)]
            if ended or not ready:
                self._fill_slots()

    def _fill_slots(self) -> None:
        """Give packs to free slots, of new nodes too."""
        if not self.waiting:
            return
        slots = self.nodes.slots()
        usable = [slot for slot in slots if slot.node not in self._excluded]
        short = [slot for slot in slots if self._excluded.get(slot.node) == "short"]
        taken = {slot for slot, _ in self._busy.values()}
        for slot in usable or short:
            if self.waiting and slot not in taken:
                self._start(next_pack(self.waiting, slot), slot)
        if not self._busy:
            raise self._refusal or ClusterLost(f"all nodes of the cluster are lost; {KEPT}")

    def _start(self, pack: Pack, slot: Slot) -> None:
        self.waiting.remove(pack)
        self._busy[self.nodes.start(self.gathering.order(pack, slot), slot)] = _Busy(slot, pack)

    def _listen(self, stream: Stream) -> bool:
        """Take the next message of a pack; whether there was one."""
        slot, pack = self._busy[stream]
        try:
            message = self.nodes.message(stream, slot.node)
        except PackLost as loss:
            del self._busy[stream]
            self._lose(slot, pack, loss)
            return False
        if message is None:
            del self._busy[stream]
            return False
        if isinstance(message, PackRefused) and message.error.name in _OF_NODE:
            self._refusal = message.error
            del self._busy[stream]
            reason = f"{self.nodes.name(slot.node)} refuses: {message.error}"
            self._lose(slot, pack, PackLost(reason, "unusable"))
            return False
        self.gathering.receive(pack, message)
        return True

    def _lose(self, slot: Slot, pack: Pack, loss: PackLost) -> None:
        """Let a pack wait for another slot."""
        if loss.node != "usable":
            self._excluded[slot.node] = loss.node
        pack.losses += 1
        left = len(self.gathering.left_of(pack))
        if not left:
            return
        runs, where = "run", "goes on from its last checkpoint"
        if left > 1:
            runs, where = f"{left} runs", "go on from their last checkpoints"
        if pack.hopeless:
            raise ClusterLost(f"the same {runs} were lost again and again: {loss}; {KEPT}")
        self.gathering.say(f"{loss}; its {runs} {where}")
        self.waiting.append(pack)

    def cancel(self) -> None:
        """End all packs."""
        self.nodes.cancel(list(self._busy))
