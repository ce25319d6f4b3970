"""What a run is: one frozen value with seven parts, all of them flat names on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from typing import Final, TypeVar, cast

from favano.errors import BadInput, require
from favano.methods import AnyMethod, foreign_option, make_method, method_class, source_digest
from favano.methods.clock import ServerClock
from favano.methods.favano import Favano
from favano.options import Option, Options, did_you_mean, options_of
from favano.policies import Selection
from favano.specification.parts import Fleet, ProblemPart, RunPart, TrainingPart
from favano.specification.server_part import ServerPart
from favano.transforms import ServerTransform

PARTS: Final[Mapping[str, type[Options]]] = {
    "problem": ProblemPart,
    "fleet": Fleet,
    "clock": ServerClock,
    "server": ServerPart,
    "training": TrainingPart,
    "run": RunPart,
}
ALGORITHM, LABEL = "algorithm", "label"  # keys that name the method


@dataclass(frozen=True)
class Spec:
    """One method on one problem with one fleet, for one or more seeds."""

    method: AnyMethod = field(default_factory=lambda: cast(AnyMethod, Favano()))
    problem: ProblemPart = field(default_factory=ProblemPart)
    fleet: Fleet = field(default_factory=Fleet)
    clock: ServerClock = field(default_factory=ServerClock)
    server: ServerPart = field(default_factory=ServerPart)
    training: TrainingPart = field(default_factory=TrainingPart)
    run: RunPart = field(default_factory=RunPart)
    as_given: Spec | None = field(
        default=None, compare=False, repr=False
    )  # before it was completed

    def __post_init__(self) -> None:
        clash = ", ".join(options_of(type(self.method)).keys() & part_options().keys())
        rule = f"has options that are keys of any run: {clash}; rename them"
        require(not clash, ALGORITHM, self.method.name, rule)
        clients = self.fleet.clients
        for name, value in (
            ("selected", self.clock.selected),
            ("concurrency", getattr(self.method, "concurrency", None)),
        ):
            fits = clients is None or value is None or value <= clients
            require(fits, name, value, f"need 1..clients ({clients})")
        self._check_local_steps()
        for key, drawn in (("step_count", "durations"), ("round_time", "sum")):
            value = getattr(self.clock, key)
            unread = value not in (drawn, "one-draw") and "step_law" in self.fleet.given
            rule = f"has no effect with {key}={value}, which does not draw step times; remove it"
            require(not unread, "step_law", self.fleet.step_law, rule)
        optimiser, beyond = self.training.local_optimiser, self.beyond_theorem
        if beyond is not None:
            require(not self.run.track_bound, "track_bound", self.run.track_bound, beyond[1])
        if self.method.corrects:
            key = "momentum" if optimiser.name == "sgd" else "optimiser"
            rule = (
                f"need plain steps with {self.method.name}: its corrections are computed from them"
            )
            require(not optimiser.form.vectors, key, getattr(self.training, key), rule)

    def _check_local_steps(self) -> None:
        steps, epochs, clients = self.training.local_steps, self.training.local_epochs, self.fleet
        if isinstance(steps, tuple) and (count := clients.clients) is not None:
            rule = f"need one number for all clients, or one for each ({count})"
            require(len(steps) == count, "local_steps", f"{len(steps)} numbers", rule)
        order = self.problem.batch_order
        rule = (
            "need batch_order=epoch, which passes over a client's samples one epoch after another"
        )
        require(epochs is None or order == "epoch", "local_epochs", epochs, rule)

    @property
    def beyond_theorem(self) -> tuple[str, str] | None:
        """The first key that makes steps the theorem is not about, and what it needs instead."""
        local, server = self.training.local_optimiser, self.server
        other_steps = {
            "optimiser": local.name != "sgd",
            "momentum": local.momentum > 0,
            "weight_decay": local.weight_decay > 0,
            "clip": local.clip is not None,
            "server": server.server is not None,
            "server_optimiser": server.server_optimiser != "none",
            "robust": server.robust != "none",
        }
        if key := next((key for key, other in other_steps.items() if other), None):
            return key, (
                "need plain SGD and no server transforms, since the theorem is about the method's "
                "own steps"
            )
        if self.training.recipe is None:
            return None
        rule = "need quantise=none, since the theorem is about gradients in full precision"
        return "quantise", rule

    @property
    def counts_samples(self) -> bool:
        """Whether its plan depends on how many samples each client has."""
        by_samples: bool = getattr(self.method, "sample_weights", False)
        by_samples |= self.clock.selection.uses_samples
        return by_samples or self.training.local_epochs is not None

    @property
    def name(self) -> str:
        """What the run is called beside others: the method's label, or its name."""
        return self.method.label or self.method.name

    @property
    def keys(self) -> dict[str, object]:
        """All values by their flat names."""
        parts = (getattr(self, part) for part in PARTS)
        every = ((group, key) for group in parts for key in options_of(type(group)))
        shared = {key: _written(getattr(group, key)) for group, key in every}
        own = {key: getattr(self.method, key) for key in options_of(type(self.method))}
        return {ALGORITHM: self.method.import_path or self.method.name, **shared, **own}

    @property
    def given(self) -> dict[str, object]:
        """The values that differ from their defaults, by their flat names."""
        parts = [getattr(self, part).given for part in PARTS]
        label = {LABEL: self.method.label} if self.method.label else {}
        own = {ALGORITHM: self.method.import_path or self.method.name, **label, **self.method.given}
        return {key: _written(value) for part in (own, *parts) for key, value in part.items()}

    @property
    def source(self) -> str | None:
        """A digest of the user's own code: method, server transforms, selection; None: none."""
        parts = (self.method, *self.server.chain, self.clock.selection)
        digests = [source_digest(part) for part in parts]
        own = [digest for digest in digests if digest is not None]
        return (
            own[0] if len(own) == 1 else sha256(" ".join(own).encode()).hexdigest() if own else None
        )


def _written(value: object) -> object:
    """A value as files have it: transforms and selection rules are texts there."""
    if isinstance(value, Selection):
        return str(value)
    if not isinstance(value, tuple):
        return value
    return tuple(str(item) if isinstance(item, ServerTransform) else item for item in value)


@cache
def part_options() -> Mapping[str, tuple[str, Option[object]]]:
    """Every key that does not belong to a method, with the part it belongs to."""
    return {
        key: (part, option)
        for part, kind in PARTS.items()
        for key, option in options_of(kind).items()
    }


def make_spec(keys: Mapping[str, object], kind: type[AnyMethod] | None = None) -> Spec:
    """A specification from flat keys, of a file or of flags; bad ones are refused by name.

    `kind` is the class of a method that cannot be found by its name.

    >>> make_spec({"clients": 10, "selected": 30})
    Traceback (most recent call last):
    favano.errors.BadInput: selected=30: need 1..clients (10)
    """
    values = dict(keys)
    name, label = str(values.pop(ALGORITHM, Favano.name)), str(values.pop(LABEL, ""))
    for key, text in ((ALGORITHM, name), (LABEL, label)):
        require(text.isprintable(), key, text, "need printable characters")
    kind = kind or method_class(name)
    known, own = part_options(), options_of(kind)
    parts: dict[str, dict[str, object]] = {part: {} for part in PARTS}
    options = {}
    for key, value in values.items():
        if key in own:
            options[key] = value
        elif key in known:
            parts[known[key][0]][key] = value
        else:
            raise unknown_key(key, value, kind)
    made = {part: PARTS[part](**parts[part]) for part in PARTS}
    return Spec(method=make_method(kind, options, label), **made)  # type: ignore[arg-type]


def unknown_key(key: str, value: object, kind: type[AnyMethod]) -> BadInput:
    """The refusal of a key that is neither a part's nor the method's."""
    refused = foreign_option(key, value, [kind])
    if "unknown key" not in str(refused):
        return refused
    known = [*part_options(), *options_of(kind)]
    return BadInput(key, value, f"unknown key; {did_you_mean(key, known)}")


def changed(spec: Spec, keys: Mapping[str, object]) -> Spec:
    """The specification as it was asked for, with some keys replaced.

    With another method, options that the new one has not are left out.
    """
    asked = spec.as_given or spec
    name = keys.get(ALGORITHM, asked.method.import_path or asked.method.name)
    own = options_of(method_class(str(name)))
    kept = {
        key: value
        for key, value in asked.given.items()
        if key in part_options() or key in own or key == LABEL
    }
    return make_spec({**kept, **keys, ALGORITHM: name})


T = TypeVar("T")


def required(value: T | None) -> T:
    """A key of a complete specification, where nothing is open any more."""
    assert value is not None
    return value
