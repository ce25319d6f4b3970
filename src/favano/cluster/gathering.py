"""The driver's side of runs elsewhere: orders for packs, and one result from many messages."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from favano.cluster.messages import (
    Advanced,
    Asked,
    Began,
    Ended,
    Message,
    Notice,
    Order,
    PackRefused,
    SavedPack,
)
from favano.cluster.packs import Pack, PackedRun, Slot
from favano.code_digest import PLAIN, user_sources, with_imported
from favano.errors import WriteFailed
from favano.options import Options
from favano.records import worst
from favano.results import Result
from favano.run.checkpoint_files import CheckpointFiles
from favano.run.checkpoints import Checkpoints
from favano.run.progress import Progress
from favano.specification.history_start import named_files
from favano.specification.spec import Spec, given_keys
from favano.types import Kernels
from favano.user_classes import SOURCE, source_digest

# What all nodes together may send, so that this process is never the bottleneck.
_RATE: Final = 20e6  # bytes of checkpoints per second, if no interval is asked for
_MESSAGES: Final = 20.0  # about progress, per second
_PROGRESS: Final = 0.5  # seconds between two of one pack, at least


@dataclass
class Gathering:
    """Results of several specifications, while their packs run elsewhere."""

    results: Sequence[Result]  # with earlier seeds; their specifications are complete
    kernels: Sequence[Kernels | None]  # of each specification, on a CPU
    progress: Progress
    finished: Callable[[Result], None]
    audits: bool
    checkpoints: Checkpoints | None
    slots: int = 1  # that send messages at the same time
    _left: dict[Pack, int] = field(default_factory=dict)  # local steps
    _missing: dict[int, set[int]] = field(default_factory=dict)  # seeds by specification
    _files: dict[str, bytes] = field(default_factory=dict)  # that specifications name
    _sources: dict[str, str] = field(default_factory=dict)  # of the user's code
    _parts: dict[int, list[Result]] = field(default_factory=dict)  # by specification
    _cannot_write: bool = False

    def begin(self, packs: Collection[Pack]) -> None:
        """All packs are about to be run."""
        for run in (run for pack in packs for run in pack.runs):
            self._missing.setdefault(run.number, set()).add(run.seed)
        self._files = _named([result.spec for result in self.results])
        self._sources = user_sources()
        self._left = {pack: pack.steps for pack in packs}
        self.progress.begin(sum(self._left.values()))

    def order(self, pack: Pack, slot: Slot) -> Order:
        """What is left of a pack, with the newest checkpoints of its runs."""
        seeds: dict[int, list[int]] = {}
        for run in self.left_of(pack):
            seeds.setdefault(run.number, []).append(run.seed)
        settings, slots = self.checkpoints or Checkpoints([]), self.slots
        return Order(
            asked={number: self._asked(number, some) for number, some in seeds.items()},
            files=self._files,
            sources=self._sources,
            workers=slot.cores,
            checkpoints=self.checkpoints is not None,
            every=settings.every,
            rate=_RATE / slots,
            progress_every=max(_PROGRESS, slots / _MESSAGES),
            keep_last=settings.keep_last,
            audits=self.audits,
        )

    def left_of(self, pack: Pack) -> list[PackedRun]:
        """The runs of a pack that have not ended."""
        return [run for run in sorted(pack.runs) if run.seed in self._missing[run.number]]

    def _asked(self, number: int, seeds: Sequence[int]) -> Asked:
        spec, kernels = self.results[number].spec, self.kernels[number]
        here = {"device": "cuda"} if kernels is None else {"kernels": kernels}
        keys = {**given_keys(spec), **here}
        paths = [path for seed in seeds for path in self._checkpoints_of(number, seed)]
        saved = {path.name: path.read_bytes() for path in paths}
        asked = Asked(keys, spec.source, tuple(seeds), saved)
        if all(part.import_path for part in spec.own_parts):
            return asked
        given = spec.as_given or spec  # with classes that are in no file
        sent = replace(given, run=replace(given.run, **here))
        return asked._replace(spec=sent, classes=tuple(map(_values_of, spec.own_parts)))

    def _checkpoints_of(self, number: int, seed: int) -> list[Path]:
        if self.checkpoints is None:
            return []
        return CheckpointFiles(self.checkpoints.folders[number], seed).paths()

    def receive(self, pack: Pack, message: Message) -> None:
        """Take a message of a pack to where a run on this machine would have left it."""
        match message:
            case Began(steps):  # fewer than planned after a checkpoint, more than before a loss
                self._advance(pack, "", self._left[pack] - steps, 0.0)
            case Advanced(label, steps, time):
                self._advance(pack, label, steps, time)
            case Notice(sentence):
                self.say(sentence)
            case SavedPack():
                pack.losses = 0
                self._save(message)
            case Ended(number, seeds, result):
                pack.losses = 0
                self._add(number, seeds, result)
            case PackRefused(error):
                raise error

    def _advance(self, pack: Pack, label: str, steps: int, time: float) -> None:
        self._left[pack] -= steps
        self.progress.advance(label, steps, time)

    def say(self, sentence: str) -> None:
        """Tell the user."""
        (self.checkpoints or Checkpoints([])).say(sentence)

    def _save(self, saved: SavedPack) -> None:
        assert self.checkpoints is not None
        files = CheckpointFiles(self.checkpoints.folders[saved.number], saved.seed)
        try:
            files.put(saved.name, saved.content)
        except WriteFailed as error:
            if not self._cannot_write:
                self.say(f"no checkpoint: {error}; the run goes on without it")
            self._cannot_write = True

    def _add(self, number: int, seeds: Sequence[int], part: Result) -> None:
        """Keep the seeds of a pack until all those of their specification are there."""
        self._parts.setdefault(number, []).append(part)
        for seed in seeds:
            for path in self._checkpoints_of(number, seed)[1:]:
                path.unlink()
        self._missing[number] -= set(seeds)
        if not self._missing[number]:
            self._join(number)
            self.finished(self.results[number])

    def _join(self, number: int) -> None:
        """Put the seeds that there are into the result of a specification."""
        whole = self.results[number]
        for part in self._parts.pop(number, []):
            _add(whole, part)
        whole.rows.sort(key=lambda row: row.seed)
        whole.bounds.sort(key=lambda row: row.seed)
        states = sorted(whole.states.items())
        whole.states.clear()
        whole.states.update(states)
        whole.summary.runs = tuple(sorted(whole.summary.runs, key=lambda run: run.seed))

    def interrupt(self) -> None:
        """Note Ctrl-C: results that lack seeds are partial."""
        for number, seeds in self._missing.items():
            self._join(number)
            self.results[number].interrupted = True
            if seeds:
                self.results[number].summary.status = "partial"


def _add(whole: Result, part: Result) -> None:
    """Add the seeds of a pack."""
    whole.rows += part.rows
    whole.bounds += part.bounds
    whole.states.update(part.states)
    before, added = whole.summary, part.summary
    whole.summary = replace(
        added,
        status=worst([before.status, added.status]),
        runs=(*before.runs, *added.runs),
        audit=added.audit or before.audit,
        served=added.served or before.served,
        code=added.code or before.code,
    )
    whole.participation = part.participation or whole.participation
    whole.steps_before += part.steps_before
    whole.seconds_before += part.seconds_before
    whole.error = part.error or whole.error


def _values_of(part: Options) -> dict[str, object]:
    """Plain values of a class, with its digest.

    Of those that equal the base's pickling drops, and a class that is made anew may set others.
    """
    values = {name: value for name, value in vars(type(part)).items() if name[:1] != "_"}
    plain = {name: value for name, value in values.items() if isinstance(value, PLAIN)}
    return {**plain, SOURCE: source_digest(part)}


def _named(specs: Sequence[Spec]) -> dict[str, bytes]:
    """Files that must be on every machine: of own classes, of step times and of splits.

    With a class comes what its file imports from beside it.
    """
    places = [part.import_path for spec in specs for part in spec.own_parts]
    code = {Path(place.rpartition(":")[0]) for place in places if place}
    paths = {Path(name) for spec in specs for name in named_files(spec)}
    return {str(path): path.read_bytes() for path in paths.union(*map(with_imported, code))}
