"""A Ray cluster as a place for runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import ray
from ray.exceptions import RayTaskError

from favano.cluster.driver import Driver
from favano.cluster.gathering import Gathering
from favano.cluster.packs import Slot, make_packs
from favano.cluster.preparation import prepare
from favano.cluster.ray_connection import connection
from favano.cluster.ray_nodes import RayNodes, needs
from favano.cluster.ray_parcel import Parcel, parcel, user_code
from favano.errors import BadInput, require
from favano.results import Result
from favano.run.backend import Found, RunTogether, check_observer
from favano.run.checkpoints import Checkpoints
from favano.run.data import load_data, split_of
from favano.run.inputs import RunInputs
from favano.run.observer import Observer
from favano.run.progress import Progress, Silence
from favano.run.runner import NOTHING
from favano.specification.spec import Spec


@contextmanager
def connected(address: str) -> Iterator[Cluster]:
    """The cluster at an address, or with `auto` one of this machine alone."""
    with connection(address) as head, user_code():
        yield Cluster(address, head)


@dataclass(frozen=True)
class Cluster:
    """A cluster that this process has joined."""

    address: str
    head: str
    _nodes: dict[str, RayNodes] = field(default_factory=dict)  # by device
    _loaded: dict[object, Parcel] = field(
        default_factory=dict
    )  # by what names data sets, or by inputs themselves

    def size(self, device: str) -> int:
        """Slots of the nodes that are alive and right."""
        return len(self._slots(device))

    def call(self, function: Callable[[], Found], device: str) -> Found:
        """What a function finds on one of the nodes."""
        slot = self._slots(device)[0]
        task = ray.remote(max_retries=0)(lambda: function())
        try:
            value: Found = ray.get(task.options(**needs(slot)).remote())
        except RayTaskError as error:
            raise error.cause from error
        return value

    def load(
        self, spec: Spec, data_dir: Path | None, on_image: Callable[[int], None]
    ) -> RunTogether:
        """Load the data, which every node gets from here, once for all runs on them."""
        part = spec.problem
        names = part.dataset, part.normalise, part.holdout, part.data_fraction, split_of(part)
        if (*names, data_dir) not in self._loaded:
            data = load_data(part, data_dir, on_image)
            self._loaded[*names, data_dir] = parcel(RunInputs(data))
        return partial(self._run_together, inputs=self._loaded[*names, data_dir])

    def prepare(self, spec: Spec, inputs: RunInputs) -> RunTogether:
        """Send data and network to the nodes, once."""
        self._slots(spec.run.device)
        if inputs not in self._loaded:
            self._loaded[inputs] = parcel(inputs)
        return partial(self._run_together, inputs=self._loaded[inputs])

    def _run_together(
        self,
        specs: Sequence[Spec],
        *,
        inputs: Parcel,
        progress: Progress | None = None,
        finished: Callable[[Result], None] = lambda result: None,
        audits: bool = True,
        checkpoints: Checkpoints | None = None,
        earlier: Mapping[int, Result] = NOTHING,
        on_evaluate: Observer | None = None,
    ) -> list[Result]:
        """Run every seed of several specifications, spread over the cluster."""
        check_observer(on_evaluate)
        device = specs[0].run.device
        slots = self._slots(device)  # before planning, which takes longer
        results, kernels, runs = prepare(specs, inputs.here, earlier)
        display = progress or Silence()
        gathering = Gathering(
            results, kernels, display, finished, audits, checkpoints, slots=len(slots)
        )
        packs = make_packs(runs, slots)
        gathering.begin(packs)
        driver = Driver(gathering, self._nodes[device].with_inputs(inputs.there), packs)
        try:
            driver.finish()
        except KeyboardInterrupt:
            gathering.interrupt()
        finally:
            display.end()
            driver.cancel()
        return results

    def _slots(self, device: str) -> list[Slot]:
        """Places for packs on the nodes that are right; refused if there are none."""
        if device not in self._nodes:
            self._nodes[device] = RayNodes(self.head, device)
        nodes = self._nodes[device]
        nodes.settle()
        slots = nodes.slots()
        rule = f"no node can take part: {'; '.join(nodes.faults)}"
        require(bool(slots) or not nodes.faults, "cluster", self.address, rule)
        if not slots:
            rule = f"no node of the cluster {self.address} has one"
            raise BadInput("device", device, rule)
        return slots
