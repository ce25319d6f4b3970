"""Where runs are made: on this machine, or on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Protocol, TypeVar

from torch import nn

from favano.results import Result
from favano.run.checkpoints import Checkpoints
from favano.run.own_data import OwnData, samples_of
from favano.run.problem import Problem
from favano.run.progress import Progress
from favano.run.runner import NOTHING, run_together
from favano.run.samples import ModelFactory, Samples, check_device, load_samples, named_model
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
        samples = load_samples(spec, data_dir, on_image)
        return partial(run_together, samples=samples, model=named_model(spec, samples))


THIS_MACHINE: Final = ThisMachine()


@dataclass(frozen=True)
class OwnProblem:
    """This machine, with a problem from Python, which a specification does not say all of."""

    problem: Problem
    data: OwnData | None  # None: of a data set by name

    def size(self, device: str) -> int:
        """One device."""
        return THIS_MACHINE.size(device)

    def call(self, function: Callable[[], Found], device: str) -> Found:
        """What a function finds here."""
        return function()

    def samples(self, spec: Spec) -> Samples:
        """The data on the device of a specification."""
        return samples_of(self.problem, self.data, spec)

    def model(self, spec: Spec, samples: Samples) -> nn.Module | ModelFactory:
        """The network, or what makes it."""
        return self.problem.model or named_model(spec, samples)

    def load(
        self, spec: Spec, data_dir: Path | None, on_image: Callable[[int], None]
    ) -> RunTogether:
        """Move the data onto the device of the specification."""
        samples = self.samples(spec)
        return partial(run_together, samples=samples, model=self.model(spec, samples))
