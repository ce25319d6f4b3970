"""The nodes of a Ray cluster: which of them are right, and packs on them."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic
from typing import Any, Final

import ray
from ray import cloudpickle
from ray.exceptions import (
    GetTimeoutError,
    NodeDiedError,
    OutOfMemoryError,
    RayError,
    RayTaskError,
    TaskUnschedulableError,
    WorkerCrashedError,
)
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from favano.cluster import node_report
from favano.cluster.driver import KEPT, PackLost
from favano.cluster.messages import Message, Order
from favano.cluster.node_check import fault_of
from favano.cluster.pack_run import pack_messages
from favano.cluster.packs import Slot, slots_of
from favano.errors import ClusterLost
from favano.notices import notice

_CHECK: Final = 120.0  # seconds for a node to say what it has
_HEAD: Final = 5.0  # seconds without an answer, after which the head counts as lost
_LOOK: Final = 1.0  # seconds between two looks at the head
_END: Final = 10.0  # seconds for cancelled runs to end

cloudpickle.register_pickle_by_value(node_report)
_report = ray.remote(max_retries=0, num_cpus=0)(node_report.node_report)
_run_pack = ray.remote(num_returns="streaming", max_retries=0)(pack_messages)


def needs(slot: Slot) -> dict[str, object]:
    """What Ray must give to a task in a slot."""
    devices = {"num_cpus": slot.cores} if slot.gpu is None else {"num_cpus": 0, "num_gpus": 1}
    return {"scheduling_strategy": _on(slot.node), **devices}


def _on(node: str) -> NodeAffinitySchedulingStrategy:
    return NodeAffinitySchedulingStrategy(node, soft=False)


class RayNodes:
    """Checks each node once, before it has work; what is wrong with one is said once."""

    def __init__(self, head: str, device: str) -> None:
        self._head, self._device = _Head(head), device
        self._nodes: list[dict[str, Any]] = []  # alive when they were looked at last
        self._names: dict[str, str] = {}
        self._mine = node_report.node_report(device)
        self._checks: dict[object, str] = {}  # nodes by their unfinished reports
        self._asked: set[str] = set()
        self._cores: dict[str, int] = {}  # of nodes that are right
        self._inputs: object = None  # in Ray's object store
        self.faults: list[str] = []

    def with_inputs(self, inputs: object) -> RayNodes:
        """The same nodes for packs of runs with these inputs."""
        self._inputs = inputs
        return self

    def settle(self) -> None:
        """Wait until all nodes have been checked."""
        self._check(_CHECK)
        for node in self._checks.values():
            self._leave_out(node, f"has not answered for {_CHECK:g} s")
        self._checks.clear()

    def slots(self) -> list[Slot]:
        """Places for packs on nodes that are alive and right."""
        self._check(0.0)
        return [
            slot
            for node in self._nodes
            if (name := node["NodeID"]) in self._cores
            for slot in self._slots_of(node, self._cores[name])
        ]

    def _slots_of(self, node: dict[str, Any], cores: float) -> list[Slot]:
        """The slots of a node whose processes may use so many cores."""
        has = node["Resources"]
        usable = min(cores, has.get("CPU", 0))
        return slots_of(node["NodeID"], usable, has.get("GPU", 0), self._device)

    def _check(self, seconds: float) -> None:
        """Ask new nodes for their reports, and take those that have come."""
        if self._head.answers():  # else Ray would wait for it
            self._nodes = [node for node in ray.nodes() if node["Alive"]]
        for node in self._nodes:
            name = node["NodeID"]
            if name not in self._asked and self._slots_of(node, float("inf")):
                self._asked.add(name)
                self._names[name] = _name_of(node, self._nodes)
                options = {"scheduling_strategy": _on(name)}
                self._checks[_report.options(**options).remote(self._device)] = name
        reports = list(self._checks)
        ready, _ = (
            ray.wait(reports, num_returns=len(reports), timeout=seconds) if reports else ((), ())
        )
        for report in ready:
            self._take(report, self._checks.pop(report))

    def _take(self, report: object, node: str) -> None:
        promised = next((int(each["Resources"].get("GPU", 0)) for each in self._nodes
                         if each["NodeID"] == node), 0)  # fmt: skip
        try:
            theirs = ray.get(report)
            fault = fault_of(theirs, self._mine, promised if self._device != "cpu" else 0)
        except OutOfMemoryError:
            fault = "has too little memory even to be checked"
        except RayError as error:
            fault = f"cannot be checked: {_first_line(error)}"
        if fault is None:
            self._cores[node] = theirs["cores"]
        else:
            self._leave_out(node, fault)

    def _leave_out(self, node: str, fault: str) -> None:
        self.faults.append(f"{self.name(node)} {fault}")
        notice(f"{self.faults[-1]}; it gets no runs")

    def name(self, node: str) -> str:
        """What the user knows a node by."""
        return f"node {self._names.get(node, node[:8])}"

    def start(self, order: Order, slot: Slot) -> object:
        """Begin a pack; its stream of messages."""
        stream: object = _run_pack.options(**needs(slot)).remote(order, self._inputs)
        return stream

    def ready(self, streams: Sequence[object], seconds: float) -> list[object]:
        """Streams with messages; raises `ClusterLost` if the head of the cluster is gone."""
        self._head.check()
        ready, _ = ray.wait(list(streams), timeout=seconds)
        if ready and len(streams) > 1:
            ready, _ = ray.wait(list(streams), num_returns=len(streams), timeout=0)
        return list(ready)

    def message(self, stream: Any, node: str) -> Message | None:
        """The next message of a pack; None at the end. Raises `PackLost`."""
        try:
            message: Message = ray.get(next(stream))
        except StopIteration:
            return None
        except OutOfMemoryError:
            raise PackLost(f"{self.name(node)} has too little memory", "short") from None
        except (NodeDiedError, TaskUnschedulableError):
            raise PackLost(f"{self.name(node)} was lost", "unusable") from None
        except WorkerCrashedError:
            raise PackLost(f"a process on {self.name(node)} was killed") from None
        except RayTaskError as error:
            if isinstance(error, MemoryError) or isinstance(error.cause, MemoryError):
                raise PackLost(f"{self.name(node)} has too little memory", "short") from None
            raise
        except RayError as error:
            raise PackLost(f"{self.name(node)} has failed: {_first_line(error)}") from None
        return message

    def cancel(self, streams: Sequence[Any]) -> None:
        """End packs."""
        for stream in streams:
            with suppress(RayError):
                ray.cancel(stream)
        if not self._head.answers():
            return
        for stream in streams:
            with suppress(RayError, StopIteration, GetTimeoutError):
                ray.get(stream.completed(), timeout=_END)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


def _name_of(node: dict[str, Any], nodes: Sequence[dict[str, Any]]) -> str:
    """The name that it was started with, or else its host, with the address if two share it."""
    name, host, address = (
        node[key] for key in ("NodeName", "NodeManagerHostname", "NodeManagerAddress")
    )
    if name != address:
        return str(name)
    alone = sum(other["NodeManagerHostname"] == host for other in nodes) == 1
    return str(host) if alone else f"{host} ({address}, {node['NodeID'][:8]})"


class _Head:
    """Whether the head of the cluster answers: Ray itself would be silent for a minute."""

    def __init__(self, address: str) -> None:
        self._address, self._looked = address, monotonic()
        self._silent_since: float | None = None

    def answers(self) -> bool:
        """Whether it answers now."""
        host, _, port = self._address.rpartition(":")
        self._looked = monotonic()
        try:
            with socket.create_connection((host.strip("[]"), int(port)), _LOOK):
                self._silent_since = None
        except OSError:
            self._silent_since = self._silent_since or self._looked
            return False
        return True

    def check(self) -> None:
        """Look at it now and then; raises `ClusterLost` if it has been silent for too long."""
        if monotonic() - self._looked < _LOOK or self.answers():
            return
        if self._silent_since is not None and monotonic() - self._silent_since > _HEAD:
            rule = f"the head of the cluster, {self._address}, does not answer any more"
            raise ClusterLost(f"{rule}; {KEPT}")
