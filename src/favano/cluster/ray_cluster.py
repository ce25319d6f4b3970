"""A Ray cluster: its slots get packs, and packs of nodes that are lost go to others."""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, field
from functools import partial
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import ray
from ray.exceptions import NodeDiedError, RayError, RayTaskError, TaskUnschedulableError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from favano.cluster.gathering import Gathering
from favano.cluster.pack_run import pack_messages
from favano.cluster.packs import Pack, Slot, make_packs, next_pack, slots_of
from favano.cluster.preparation import prepare
from favano.data import Dataset
from favano.errors import BadInput, ClusterLost, require
from favano.results import Result
from favano.run.backend import Found, RunTogether
from favano.run.checkpoints import Checkpoints
from favano.run.data import load_data
from favano.run.progress import Progress, Silence
from favano.run.runner import NOTHING
from favano.specification.spec import Spec

AUTO: Final = "auto"
_ANSWER: Final = 5.0  # seconds to wait for the answer of an address
_LOOK: Final = 1.0  # seconds without a message, after which the nodes are looked at again
_END: Final = 10.0  # seconds for cancelled runs to end
# A node counts as dead after 3 s, not 15 s; lanes are as urgent as those of a command without Ray,
# which makes its workers nice; Ray does not report its use.
SETTINGS: Final = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_worker_niceness": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
}


@contextmanager
def connected(address: str) -> Iterator[Cluster]:
    """The cluster at an address, or with `auto` one of this machine alone."""
    os.environ |= {key: value for key, value in SETTINGS.items() if key not in os.environ}
    on_termination = signal.getsignal(signal.SIGTERM)
    # Ray prints what it thinks of lost nodes where a result may have to stand alone.
    with TemporaryDirectory(prefix="favano-") as folder, redirect_stdout(StringIO()):
        try:
            _connect(address, folder)
            signal.signal(signal.SIGTERM, on_termination)  # Ray has set its own
            yield Cluster(address)
        finally:
            ray.shutdown()


def _connect(address: str, folder: str) -> None:
    begin = partial(ray.init, log_to_driver=False, logging_level=logging.CRITICAL)
    if address == AUTO:
        begin(address="local", include_dashboard=False, _temp_dir=folder)
        return
    host, colon, port = address.rpartition(":")
    rule = "need auto, or HOST:PORT of a cluster that this machine has joined"
    require(bool(colon and host) and port.isdecimal(), "cluster", address, rule)
    try:
        _check_answer(host, int(port))
        with _nothing_on_stderr():
            begin(address=address)
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error).strip().partition("\n")[0]
        raise BadInput("cluster", address, f"cannot be joined: {reason}") from error


@contextmanager
def _nothing_on_stderr() -> Iterator[None]:
    """While Ray looks for a cluster: it repeats each second, past Python, that there is none."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _check_answer(host: str, port: int) -> None:
    """Greet as gRPC does; Ray itself would wait for minutes for an answer that never comes."""
    with socket.create_connection((host, port), _ANSWER) as connection:
        if os.environ.get("RAY_USE_TLS") == "1":
            return
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
        if connection.recv(4)[3:] != b"\x04":
            raise ConnectionError("no Ray cluster answers there")


@dataclass(frozen=True)
class Cluster:
    """A cluster that this process has joined."""

    address: str

    def size(self, device: str) -> int:
        """Slots of the nodes that are alive."""
        return len(self._slots(device))

    def call(self, function: Callable[[], Found], device: str) -> Found:
        """What a function finds on one of the nodes."""
        slot = self._slots(device)[0]
        task = ray.remote(max_retries=0)(lambda: function())
        try:
            value: Found = ray.get(task.options(**_needs(slot)).remote())
        except RayTaskError as error:
            raise error.cause from error
        return value

    def load(
        self, spec: Spec, data_dir: Path | None, on_image: Callable[[int], None]
    ) -> RunTogether:
        """Load the data, which every node gets from here, once."""
        data = load_data(spec.problem, data_dir, on_image)
        return partial(self._run_together, data=data)

    def _run_together(
        self,
        specs: Sequence[Spec],
        *,
        data: Dataset,
        progress: Progress | None = None,
        finished: Callable[[Result], None] = lambda result: None,
        audits: bool = True,
        checkpoints: Checkpoints | None = None,
        earlier: Mapping[int, Result] = NOTHING,
    ) -> list[Result]:
        """Run every seed of several specifications, spread over the cluster."""
        results, kernels, runs = prepare(specs, data, earlier)
        display = progress or Silence()
        gathering = Gathering(results, kernels, display, finished, audits, checkpoints)
        device = specs[0].run.device
        packs = make_packs(runs, self._slots(device))
        gathering.begin(packs)
        work = _Work(gathering, ray.put(data), packs, device)
        try:
            work.finish()
        except KeyboardInterrupt:
            gathering.interrupt()
        finally:
            display.end()
            work.cancel()
        return results

    def _slots(self, device: str) -> list[Slot]:
        """Places for packs on the nodes that are alive; refused if there are none."""
        slots = slots_on(device)
        require(bool(slots), "device", device, f"no node of the cluster {self.address} has one")
        return slots


def slots_on(device: str) -> list[Slot]:
    """Places for packs on the nodes that are alive."""
    nodes = ((node["NodeID"], node["Resources"]) for node in ray.nodes() if node["Alive"])
    return [
        slot
        for name, has in nodes
        for slot in slots_of(name, has.get("CPU", 0), has.get("GPU", 0), device)
    ]


def _needs(slot: Slot) -> dict[str, object]:
    """What Ray must give to a task in a slot."""
    node = NodeAffinitySchedulingStrategy(slot.node, soft=False)
    devices = {"num_cpus": slot.cores} if slot.gpu is None else {"num_cpus": 0, "num_gpus": 1}
    return {"scheduling_strategy": node, **devices}


_run_pack = ray.remote(num_returns="streaming", max_retries=0)(pack_messages)


@dataclass
class _Work:
    """Packs that wait, and packs that slots are at."""

    gathering: Gathering
    data: object  # a reference to the data set
    waiting: list[Pack]
    device: str
    _busy: dict[object, tuple[Slot, Pack]] = field(default_factory=dict)  # by stream of messages
    _lost: set[str] = field(default_factory=set)  # nodes

    def finish(self) -> None:
        """Run all packs; raises `ClusterLost` if no node is left."""
        self._fill_slots()
        while self._busy:
            ready, _ = ray.wait(list(self._busy), timeout=_LOOK)
            if not ready or not self._listen(ready[0]):
                self._fill_slots()

    def _fill_slots(self) -> None:
        """Give packs to free slots, of new nodes too."""
        if not self.waiting:
            return
        taken = {slot for slot, _ in self._busy.values()}
        for slot in slots_on(self.device):
            if self.waiting and slot not in taken and slot.node not in self._lost:
                self._start(next_pack(self.waiting, slot), slot)
        if not self._busy:
            raise ClusterLost(f"all nodes of the cluster are lost; {_KEPT}")

    def _start(self, pack: Pack, slot: Slot) -> None:
        self.waiting.remove(pack)
        task = _run_pack.options(**_needs(slot))
        self._busy[task.remote(self.gathering.order(pack, slot), self.data)] = slot, pack

    def _listen(self, stream: object) -> bool:
        """Take the next message of a pack; whether there was one."""
        slot, pack = self._busy[stream]
        try:
            self.gathering.receive(pack, ray.get(next(stream)))  # type: ignore[call-overload]
        except StopIteration:
            del self._busy[stream]
            return False
        except RayTaskError as error:
            missing = re.search("No module named '.+'", str(error))
            rule = f"{missing and missing[0]}; install the same packages as here"
            require(missing is None, "cluster", error.ip, rule)
            raise
        except RayError as error:
            del self._busy[stream]
            self._lose(slot, pack, error)
            return False
        return True

    def _lose(self, slot: Slot, pack: Pack, error: RayError) -> None:
        """Let a pack wait for another slot."""
        if isinstance(error, NodeDiedError | TaskUnschedulableError):
            self._lost.add(slot.node)
        pack.losses += 1
        left = len(self.gathering.left_of(pack))
        if not left:
            return
        runs = "run" if left == 1 else f"{left} runs"
        if pack.hopeless:
            reason = str(error).strip().partition("\n")[0]
            raise ClusterLost(f"the same {runs} were lost again and again: {reason}; {_KEPT}")
        self.gathering.say(f"a node of the cluster was lost; its {runs} will go on elsewhere")
        self.waiting.append(pack)

    def cancel(self) -> None:
        """End all packs."""
        streams = list(self._busy)
        for stream in streams:
            with suppress(RayError):
                ray.cancel(stream)
        for stream in streams:
            with suppress(RayError, StopIteration):
                ray.get(stream.completed(), timeout=_END)  # type: ignore[attr-defined]


_KEPT: Final = "checkpoints are kept; repeat the command to go on"
