"""A pack on a machine of the cluster: the same runs as on one machine, told in messages."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir
from dataclasses import replace
from pathlib import Path, PurePath
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from threading import Event, Thread
from time import perf_counter

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
from favano.code_digest import keep_sources
from favano.errors import BadInput, require
from favano.results import Result
from favano.run.checkpoint_files import CheckpointFiles
from favano.run.checkpoints import Checkpoints
from favano.run.inputs import RunInputs
from favano.run.runner import run_together
from favano.specification.presets import resolve
from favano.specification.spec import Spec, make_spec

Send = Callable[[Message], None]


def pack_messages(order: Order, inputs: RunInputs) -> Iterator[Message]:
    """Run a pack in a thread, and yield its messages; closing the iterator ends the runs."""
    messages: SimpleQueue[Message | BaseException | None] = SimpleQueue()
    closed = Event()

    def work() -> None:
        try:
            _run(order, inputs, messages.put, closed)
            messages.put(None)
        except BadInput as error:
            messages.put(PackRefused(error))
            messages.put(None)
        except BaseException as error:
            messages.put(error)

    with TemporaryDirectory(prefix="favano-") as folder, chdir(_below(Path(folder), order.files)):
        thread = Thread(target=work, name="pack")
        thread.start()
        try:
            while (message := messages.get()) is not None:
                if isinstance(message, BaseException):
                    raise message
                yield message
        finally:
            closed.set()
            thread.join()


def _run(order: Order, inputs: RunInputs, send: Send, closed: Event) -> None:
    """Run a pack in the present folder."""
    _place_files(order.files)
    keep_sources(order.sources)
    numbers, asked = list(order.asked), list(order.asked.values())
    specs = [_spec(request) for request in asked]
    if specs[0].run.device == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # else PyTorch cannot be forked
    samples = inputs.samples(specs[0].run.device)

    def end(number: int, result: Result) -> None:
        send(Ended(number, order.asked[number].seeds, _portable(result)))

    def finished(result: Result) -> None:
        end(next(n for n, spec in zip(numbers, specs, strict=True) if spec == result.spec), result)

    results = run_together(
        specs,
        samples,
        inputs.network(specs[0]),
        progress=_Reporter(send, closed, order.progress_every),
        workers=order.workers,
        finished=_nothing if order.audits else finished,
        audits=order.audits,
        checkpoints=_checkpoints(order, send) if order.checkpoints else None,
        seeds=[request.seeds for request in asked],
    )
    if order.audits and not closed.is_set():
        for number, result in zip(numbers, results, strict=True):
            end(number, result)


def _nothing(result: Result) -> None: ...


def _below(folder: Path, files: Mapping[str, bytes]) -> Path:
    """A folder so far below another one that no relative path of a file leads out of that."""
    depth = max((PurePath(name).parts.count("..") for name in files), default=0)
    path = folder.joinpath(*["below"] * depth)
    path.mkdir(parents=True, exist_ok=True)
    return path


def _place_files(files: Mapping[str, bytes]) -> None:
    """Put the files that specifications name where they are named, in the temporary folder."""
    for name, content in files.items():
        path = Path(name)
        if path.is_file() and path.read_bytes() == content:
            continue
        rule = "need a relative path, or the same file on every machine"
        require(not path.is_absolute(), "files", name, rule)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _spec(asked: Asked) -> Spec:
    spec = resolve(make_spec(asked.keys) if asked.spec is None else asked.spec)
    for part, values in zip(spec.own_parts, asked.classes, strict=False):
        for name, value in values.items():
            setattr(type(part), name, value)
    names = " and ".join(part.name for part in spec.own_parts) or spec.method.name
    rule = f"has another version of {names}; install the same"
    require(spec.source == asked.source, "cluster", platform.node(), rule)
    return spec


def _checkpoints(order: Order, send: Send) -> Checkpoints:
    """Checkpoints in the present folder, with those that were sent; new ones are sent back."""
    folders = {number: Path(f"checkpoints-{number}") for number in order.asked}
    numbers = {folder: number for number, folder in folders.items()}
    for number, folder in folders.items():
        folder.mkdir()
        for name, content in order.asked[number].saved.items():
            (folder / name).write_bytes(content)

    def written(files: CheckpointFiles, path: Path) -> None:
        send(SavedPack(numbers[files.folder], files.seed, path.name, path.read_bytes()))

    def say(sentence: str) -> None:
        send(Notice(sentence))

    folder_list = list(folders.values())
    return Checkpoints(folder_list, order.every, say, order.keep_last, written, order.rate)


def _portable(result: Result) -> Result:
    """A result without what belongs to this machine, or what the driver has itself."""
    states = {
        seed: {name: tensor.cpu() for name, tensor in state.items()}
        for seed, state in result.states.items()
    }
    return replace(result, keys={}, traced=None, _spec=None, _states=states)


class _Reporter:
    """Progress in messages, now and then; it ends the runs if nobody listens any more."""

    def __init__(self, send: Send, closed: Event, every: float) -> None:
        self._send, self._closed, self._every = send, closed, every
        self._steps, self._sent = 0, 0.0
        self._label, self._time = "", 0.0

    def begin(self, steps: int) -> None:
        """Tell how many steps are left."""
        self._send(Began(steps))

    def advance(self, label: str, steps: int, time: float) -> None:
        """Count steps, and tell of them now and then."""
        if self._closed.is_set():
            raise KeyboardInterrupt
        self._steps += steps
        self._label, self._time = label, time
        if perf_counter() > self._sent + self._every:
            self._tell()

    def _tell(self) -> None:
        self._send(Advanced(self._label, self._steps, self._time))
        self._steps, self._sent = 0, perf_counter()

    def end(self) -> None:
        """Tell of the rest."""
        if self._steps and not self._closed.is_set():
            self._tell()
