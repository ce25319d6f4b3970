"""Where runs are made: on this machine, or on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Final, Protocol, TypeVar

from favano.errors import require
from favano.results import Result
from favano.run.checkpoints import Checkpoints
from favano.run.data import load_data
from favano.run.inputs import RunInputs
from favano.run.observer import Observer
from favano.run.progress import Progress
from favano.run.runner import NOTHING, run_together
from favano.run.samples import check_device
from favano.specification.spec import Spec

Found = TypeVar("Found")


class RunTogether(Protocol):
    """Runs specifications with one network and one data set, as `runner.run_together` does."""

    def __call__(
        self,
        specs: Sequence[Spec],
        *,
        progress: Progress | None = None,
        finished: Callable[[Result], None] = lambda result: None,
        audits: bool = True,
        checkpoints: Checkpoints | None = None,
        earlier: Mapping[int, Result] = NOTHING,
        on_evaluate: Observer | None = None,
    ) -> list[Result]:
        """Run every seed, and return one result per specification."""


class Place(Protocol):
    """One machine or several."""

    def size(self, device: str) -> int:
        """GPUs or machines that can train at the same time; refused if there is none."""

    def call(self, function: Callable[[], Found], device: str) -> Found:
        """What a function finds on a machine with this device."""

    def load(
        self, spec: Spec, data_dir: Path | None, on_image: Callable[[int], None]
    ) -> RunTogether:
        """Load the data of a specification, for it and for others on the same problem."""

    def prepare(self, spec: Spec, inputs: RunInputs) -> RunTogether:
        """Take data and a network that are there already, for the same specifications."""


class ThisMachine:
    """The machine and process of the command."""

    def size(self, device: str) -> int:
        """One device."""
        check_device(device)
        return 1

    def call(self, function: Callable[[], Found], device: str) -> Found:
        """What a function finds here."""
        return function()

    def load(
        self, spec: Spec, data_dir: Path | None, on_image: Callable[[int], None]
    ) -> RunTogether:
        """Load the data onto the device of the specification."""
        check_device(spec.run.device)
        return self.prepare(spec, RunInputs(load_data(spec.problem, data_dir, on_image)))

    def prepare(self, spec: Spec, inputs: RunInputs) -> RunTogether:
        """Put the data on the device of the specification."""
        samples = inputs.samples(spec.run.device)
        return partial(run_together, samples=samples, model=inputs.network(spec))


THIS_MACHINE: Final = ThisMachine()


@contextmanager
def place(cluster: str | None, on_evaluate: Observer | None = None) -> Iterator[Place]:
    """This machine, or the cluster at an address, until the end of a `with` block."""
    if cluster in (None, "none"):
        yield THIS_MACHINE
        return
    check_observer(on_evaluate)
    require(isinstance(cluster, str), "cluster", cluster, "need auto, HOST:PORT or none")
    # By its name, since a cluster imports how runs are made.
    with import_module("favano.cluster").connect(cluster) as remote:
        yield remote


def check_observer(on_evaluate: Observer | None) -> None:
    """Refuse an observer of runs on a cluster."""
    rule = "is called in this process, and the runs would be on a cluster; remove one of the two"
    name = getattr(on_evaluate, "__name__", type(on_evaluate).__name__)
    require(on_evaluate is None, "on_evaluate", name, rule)
