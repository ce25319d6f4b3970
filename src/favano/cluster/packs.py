"""Packs: runs that share the lanes of one GPU, or of all cores of one machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

_PER_SLOT: Final = 2  # packs: a slot that is done early takes one of another
_LOSSES: Final = 3  # in a row, without a new checkpoint, after which a pack is given up


class Slot(NamedTuple):
    """A place for one pack at a time."""

    node: str
    cores: int  # for lanes on a CPU
    gpu: int | None = None  # its number on the node, for lanes on a GPU

    @property
    def speed(self) -> int:
        """Relative to other slots for the same device."""
        return self.cores if self.gpu is None else 1


class PackedRun(NamedTuple):
    """One seed of one specification."""

    number: int  # of the specification
    seed: int
    steps: int  # planned local steps


@dataclass(eq=False)
class Pack:
    """Runs that are made together, by a slot of this speed if possible."""

    speed: float
    runs: list[PackedRun] = field(default_factory=list)
    losses: int = 0  # since its last checkpoint

    @property
    def steps(self) -> int:
        """Planned local steps of all runs."""
        return sum(run.steps for run in self.runs)

    @property
    def hopeless(self) -> bool:
        """Whether it was lost too often."""
        return self.losses >= _LOSSES


def slots_of(node: str, cores: float, gpus: float, device: str) -> list[Slot]:
    """The slots of a node: one per GPU, or one for all its cores; none if it has neither.

    >>> slots_of("a", cores=16, gpus=2, device="cuda")
    [Slot(node='a', cores=8, gpu=0), Slot(node='a', cores=8, gpu=1)]
    >>> slots_of("a", cores=16, gpus=2, device="cpu")
    [Slot(node='a', cores=16, gpu=None)]
    """
    if device == "cpu":
        return [Slot(node, int(cores))] if cores >= 1 else []
    return [Slot(node, int(cores // gpus), gpu) for gpu in range(int(gpus))]


def make_packs(runs: Iterable[PackedRun], slots: Sequence[Slot]) -> list[Pack]:
    """Two packs per slot, with work in proportion to its speed; fewer if there are fewer runs."""
    packs = [Pack(slot.speed) for slot in slots for _ in range(_PER_SLOT)]
    for run in sorted(runs, key=lambda run: run.steps, reverse=True):
        best = min(packs, key=lambda pack: (pack.steps + run.steps) / pack.speed)
        best.runs.append(run)
    return [pack for pack in packs if pack.runs]


def next_pack(waiting: Sequence[Pack], slot: Slot) -> Pack:
    """The largest pack for slots of this speed, or else the smallest for others."""

    def rank(pack: Pack) -> tuple[bool, int]:
        fits = pack.speed == slot.speed
        return fits, pack.steps if fits else -pack.steps

    return max(waiting, key=rank)
