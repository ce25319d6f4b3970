"""Checkpoints of a federation: its events, its models, and what its method remembers.

Events are appended to a file, and a model is written once. A checkpoint says how many events count
and which models are in use; it replaces the one before as a whole. What could not be written is
written with the next one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, cast

import numpy as np
import torch

from favano.aggregation import KINDS, Kinds, named_kinds, pack, unpack
from favano.aggregation.snapshot import RunMemory
from favano.errors import BadInput, require
from favano.flower.evaluations import Metrics
from favano.flower.event_file import EventFile, Mark
from favano.flower.ledger import Event
from favano.records import differing
from favano.records.checkpoint import Tree, checkpoint_from_bytes, checkpoint_to_bytes
from favano.records.folder import write_together
from favano.types import Vector

_STATE, _EVENTS, _MODEL = "state.checkpoint", "events.jsonl", ".model"


class ServerState(NamedTuple):
    """Where a federation stands, besides its events and models."""

    identity: Mapping[str, str]  # what must be equal to go on
    run: str
    flower_run: int  # in which the calls were made
    now: float
    version: int
    calls: Mapping[int, str]  # numbers of the calls whose updates are awaited or not used yet
    norms: Sequence[float]  # of the last client updates
    traffic: tuple[int, int]  # bytes up and down
    rounds: Sequence[Mapping[str, object]]
    evaluations: Mapping[int, Metrics | None]  # by round
    influence: Mapping[str, object] = MappingProxyType({})  # of clients, on the model


class Models(NamedTuple):
    """Models in use."""

    server: Vector
    own: Mapping[int, Vector]  # of clients that go on from models of their own
    starts: Mapping[int, Vector]  # of jobs that are not used yet
    held: Mapping[int, Vector]  # that clients have, and packed ones are read with
    unmeasured: Mapping[int, Vector]  # of rounds whose evaluations are not made yet


class SavedServer(NamedTuple):
    """Everything that a federation needs to go on."""

    standing: ServerState
    models: Models
    memory: RunMemory
    events: Sequence[Event]


class CheckpointFolder:
    """The checkpoint of one federation, in a folder of its own."""

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self._folder = folder
        self._names: dict[int, tuple[Vector, str]] = {}  # models on disk, by identity
        self._events = EventFile(folder / _EVENTS, say)
        self._next = 0

    @property
    def exists(self) -> bool:
        """Whether there is a checkpoint."""
        return (self._folder / _STATE).is_file()

    def save(
        self, standing: ServerState, models: Models, memory: RunMemory, new: Sequence[Event]
    ) -> None:
        """Write a checkpoint; `new` are the events since the last call, failed or not."""
        mark = self._events.append(new)
        server, *others = models
        used = {
            id(model): model
            for model in (server, *(model for of in others for model in of.values()))
        }
        self._write_models([model for model in used.values() if id(model) not in self._names])
        name = {key: self._names[key][1] for key in used}
        tree: Tree = [
            json.dumps({**standing._asdict(), "events": mark}),
            name[id(server)],
            *(_named({key: name[id(model)] for key, model in of.items()}) for of in others),
            pack(memory, _kinds(memory)),
        ]
        write_together(self._folder, {_STATE: checkpoint_to_bytes(tree)})
        for key in set(self._names) - set(used):
            (self._folder / self._names.pop(key)[1]).unlink(missing_ok=True)

    def load(self, identity: Mapping[str, str], like: RunMemory) -> SavedServer:
        """Read the checkpoint; refused if it is of another federation.

        `like` is what the method remembers at first: it says which kinds of values there are.
        """
        path = self._folder / _STATE
        require(path.is_file(), "resume", self._folder, "has no checkpoint of a federation")
        tree = _content(path)
        try:
            assert isinstance(tree, list)
            text, server, *others, memory = tree
            fields = json.loads(str(text))
            mark = fields.pop("events")
            named = [_names(packed) for packed in others]
            told = unpack(memory, _kinds(like), like.state.model)
            standing = ServerState(**fields)
        except (ValueError, KeyError, TypeError, AssertionError) as error:
            raise BadInput("resume", path, f"is damaged: {error}") from error
        _check(standing.identity, identity, self._folder)
        rule = "is of an earlier version, whose events have no checksums; finish it with that one"
        require(isinstance(mark, list), "resume", path, rule)
        events = self._events.read(Mark(*mark))
        names = {str(server), *(name for of in named for name in of.values())}
        models = {name: self._read_model(name) for name in names}
        calls = {int(job): call for job, call in standing.calls.items()}
        evaluations = {int(number): metrics for number, metrics in standing.evaluations.items()}
        self._names = {id(model): (model, name) for name, model in models.items()}
        self._next = 1 + max(int(Path(name).stem) for name in names)
        return SavedServer(
            standing._replace(calls=calls, evaluations=evaluations),
            Models(
                models[str(server)],
                *({key: models[name] for key, name in of.items()} for of in named),
            ),
            cast(RunMemory, told),
            events,
        )

    def _write_models(self, models: Sequence[Vector]) -> None:
        named = {f"{self._next + place}{_MODEL}": model for place, model in enumerate(models)}
        if named:
            contents = {
                name: checkpoint_to_bytes(model.numpy(force=True)) for name, model in named.items()
            }
            write_together(self._folder, contents)
            self._names |= {id(model): (model, name) for name, model in named.items()}
            self._next += len(named)

    def _read_model(self, name: str) -> Vector:
        array = _content(self._folder / name)
        assert isinstance(array, np.ndarray)
        return torch.from_numpy(array)


def _content(path: Path) -> Tree:
    """What is in a file that has a digest."""
    try:
        return checkpoint_from_bytes(path.read_bytes())
    except (OSError, ValueError) as error:
        raise BadInput("resume", path, str(error)) from error


def _named(names: Mapping[int, str]) -> Tree:
    return json.dumps(names)


def _names(tree: Tree) -> dict[int, str]:
    return {int(key): str(name) for key, name in json.loads(str(tree)).items()}


def _kinds(memory: RunMemory) -> Kinds:
    return {*KINDS, *named_kinds((memory.state, memory.server))}


def _check(held: Mapping[str, str], mine: Mapping[str, str], folder: Path) -> None:
    names = differing(held, mine)
    rule = f"is of another federation (differs in {', '.join(names)})"
    require(not names, "resume", folder, rule)
