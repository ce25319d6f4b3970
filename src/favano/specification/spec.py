"""What a run is: one frozen value with seven parts, all of them flat names on the command line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import sha256
from typing import Final, TypeVar, cast

from favano.errors import BadInput, require
from favano.methods import AnyMethod, foreign_option, make_method, method_class
from favano.methods.clock import ServerClock
from favano.methods.context import K, shared_options
from favano.methods.favano import Favano
from favano.options import Option, Options, did_you_mean, options_of
from favano.policies import BySamples, Policy, Polling, Selection, Uniform, Weighted
from favano.policies.registry import NAME, as_policy, with_options
from favano.specification.fleet_part import FleetGroup
from favano.specification.parts import Fleet, ProblemPart, RunPart, TrainingPart
from favano.specification.server_part import ServerPart
from favano.transforms import AnyTransform, ServerTransform
from favano.user_classes import is_ours, source_digest

PARTS: Final[Mapping[str, type[Options]]] = {
    "problem": ProblemPart,
    "fleet": Fleet,
    "clock": ServerClock,
    "server": ServerPart,
    "training": TrainingPart,
    "run": RunPart,
}
ALGORITHM, LABEL = "algorithm", "label"  # keys that name the method
POLICY = "policy"  # key of a run that names one: its name, or a table of its name and options
_INTERACTION = "interaction_time"
_INDEPENDENT = (Uniform, Weighted, BySamples)  # selections that forget who was selected before
_READINGS = (  # of the clock, which are known where all clients are there and messages take no time
    "interruption", "starts_at_zero", "idle_in_interaction", "strict_ties", "overrun", "step_count",
    "round_time", "drop_last",
)  # fmt: skip


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
    policy: Policy | None = None  # that the run names; None: the method has its own
    as_given: Spec | None = field(
        default=None, compare=False, repr=False
    )  # before it was completed

    def __post_init__(self) -> None:
        _check_names(type(self.method))
        self._check_policy()
        clients = self.fleet.clients
        for name, value in (
            ("selected", self.clock.selected),
            ("concurrency", getattr(self.method, "concurrency", None)),
        ):
            fits = clients is None or value is None or value <= clients
            require(fits, name, value, f"need 1..clients ({clients})")
        self._check_local_steps()
        self._check_conditions()
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

    def _check_conditions(self) -> None:
        """Refuse what is known only where all clients are always there, by what they meet."""
        if (cause := self.fleet.conditions) is None:
            return
        given = {**self.clock.given, **self.run.given}
        for key in (*_READINGS, "variance", "track_bound"):
            rule = f"is not known together with {cause}; remove one of them"
            require(key not in given, key, given.get(key), rule)

    def _check_policy(self) -> None:
        """Refuse options that are taken already, and those that nobody would read."""
        if (policy := self.policy) is None:
            return
        clash = ", ".join(key for key in _own_options(policy) if key in part_options())
        rule = f"has options that are keys of any run: {clash}; rename them"
        require(not clash, POLICY, type(policy).__name__, rule)
        for key in self.method.policy_options:
            rule = f"is read by the policy of {self.method.name} alone; remove it, or the policy"
            value = getattr(self.method, key)
            unread = key in self.method.given and self.as_given is None
            require(not unread, key, value, rule)

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
        if isinstance(self.method, Favano) and self.method.sample_weights:
            return "sample_weights", "need sample_weights=false, since the theorem weighs all alike"
        if self.policy is not None and not isinstance(self.policy, Polling):
            return POLICY, "need polling, since the theorem is about it"
        if self.training.recipe is None:
            return None
        rule = "need quantise=none, since the theorem is about gradients in full precision"
        return "quantise", rule

    @property
    def lawless(self) -> str | None:
        """The first key that leaves clients' numbers of steps without an exact law, if any does."""
        clock, policy = self.clock, self.policy
        if policy is not None and not is_ours(policy):
            return POLICY
        polls = policy is None or isinstance(policy, Polling)
        if not polls and clock.deadline is None:  # all steps are made, or none
            return None
        drawn, interrupted = clock.step_count == "durations", clock.interruption != "redraw"
        leaves = {
            str(self.fleet.conditions): self.fleet.conditions is not None,
            "step_law": self.fleet.step_law == "half-normal",
            "selection": polls and drawn and not isinstance(clock.selection, _INDEPENDENT),
            "interruption": polls and interrupted and not self._starts_anew,
        }
        return next((key for key, holds in leaves.items() if holds), None)

    @property
    def _starts_anew(self) -> bool:
        """Whether what is left of a step that goes on after a contact has the law of a new one."""
        clock, law = self.clock, self.fleet.step_law
        period, idle = clock.waiting_time + clock.interaction_time, clock.idle_in_interaction
        whole = period % 1 == 0 and (not idle or clock.interaction_time % 1 == 0)
        whole &= not clock.strict_ties
        memoryless = law == "exponential" or (law == "geometric" and whole)
        return clock.interruption == "resume" and memoryless

    @property
    def is_of_one_horizon(self) -> bool:
        """Whether a longer run has other weights: those drawn for clients there up to its end."""
        drawn = getattr(self.method, "weights", None) == "monte-carlo"
        return drawn and self.fleet.conditions == "availability"

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
        unread = () if self.policy is None else self.method.policy_options
        names = [key for key in options_of(type(self.method)) if key not in unread]
        own = {key: getattr(self.method, key) for key in names}
        name = {ALGORITHM: self.method.import_path or self.method.name}
        return {**name, **self._named_policy, **shared, **own}

    @property
    def given(self) -> dict[str, object]:
        """The values that differ from their defaults, by their flat names."""
        parts = [getattr(self, part).given for part in PARTS]
        label = {LABEL: self.method.label} if self.method.label else {}
        name = {ALGORITHM: self.method.import_path or self.method.name}
        own = {**name, **label, **self.method.given, **self._named_policy}
        return {key: _written(value) for part in (own, *parts) for key, value in part.items()}

    @property
    def _named_policy(self) -> dict[str, object]:
        """The policy as files have it."""
        if (policy := self.policy) is None:
            return {}
        values = {key: getattr(policy, key) for key in _own_options(policy)}
        kept = {key: value for key, value in values.items() if value is not None}
        lists = {key: list(value) for key, value in kept.items() if isinstance(value, tuple)}
        return {POLICY: {NAME: policy.import_path or policy.name, **kept, **lists}}

    @property
    def own_parts(self) -> list[AnyMethod | Policy | AnyTransform | Selection]:
        """Method, policy, server transforms and selection, if they are the user's own code."""
        policy = () if self.policy is None else (self.policy,)
        parts = (self.method, *self.server.chain, self.clock.selection, *policy)
        return [part for part in parts if not is_ours(part)]

    @property
    def source(self) -> str | None:
        """A digest of the user's own code; None: there is none."""
        own = [source_digest(part) or "" for part in self.own_parts]
        return (
            own[0] if len(own) == 1 else sha256(" ".join(own).encode()).hexdigest() if own else None
        )


def _written(value: object) -> object:
    """A value as files have it: transforms and selection rules are texts there."""
    if isinstance(value, Selection):
        return str(value)
    if not isinstance(value, tuple):
        return value
    return tuple(map(_written_item, value))


def _written_item(item: object) -> object:
    if isinstance(item, FleetGroup):
        return item.given
    return str(item) if isinstance(item, ServerTransform) else item


@cache
def part_options() -> Mapping[str, tuple[str, Option[object]]]:
    """Every key that does not belong to a method, with the part it belongs to."""
    return {
        key: (part, option)
        for part, kind in PARTS.items()
        for key, option in options_of(kind).items()
    }


def _check_names(kind: type[AnyMethod]) -> None:
    """Refuse a method with options that are keys of any run."""
    clash = ", ".join(options_of(kind).keys() & part_options().keys())
    rule = f"has options that are keys of any run: {clash}; rename them"
    require(not clash, ALGORITHM, kind.name, rule)


def make_spec(keys: Mapping[str, object], kind: type[AnyMethod] | None = None) -> Spec:
    """A specification from flat keys, of a file or of flags; bad ones are refused by name.

    `kind` is the class of a method that cannot be found by its name.

    >>> make_spec({"clients": 10, "selected": 30})
    Traceback (most recent call last):
    favano.errors.BadInput: selected=30: need 1..clients (10)
    """
    name, label = str(keys.get(ALGORITHM, Favano.name)), str(keys.get(LABEL, ""))
    for key, text in ((ALGORITHM, name), (LABEL, label)):
        require(text.isprintable(), key, text, "need printable characters")
    kind = kind or method_class(name)
    _check_names(kind)
    known, own = part_options(), options_of(kind)
    parts: dict[str, dict[str, object]] = {part: {} for part in PARTS}
    options = {}
    values = with_policy(keys, [kind])
    policy = values.pop(POLICY, None)
    for key, value in values.items():
        if key in (ALGORITHM, LABEL):
            continue
        if key in own:
            options[key] = value
        elif key in known:
            parts[known[key][0]][key] = value
        else:
            raise unknown_key(key, value, kind, policy)
    made = {part: PARTS[part](**parts[part]) for part in PARTS}
    method = make_method(kind, options, label)
    spec = Spec(method=method, policy=policy, **made)  # type: ignore[arg-type]
    return with_fleet(spec, spec.fleet, values)


def with_fleet(spec: Spec, fleet: Fleet, keys: Mapping[str, object]) -> Spec:
    """The specification of these keys with a fleet; its links are the interaction time.

    >>> make_spec({"link": "home"}).clock.interaction_time
    0.0
    """
    clock = spec.clock
    if fleet.has_links and _INTERACTION not in keys:
        clock = replace(clock, interaction_time=0.0)
    return replace(spec, fleet=fleet, clock=clock)


def with_policy(keys: Mapping[str, object], kinds: Iterable[type[AnyMethod]]) -> dict[str, object]:
    """The keys; if they name a policy, it is an object with its options, for these methods.

    What a policy has in common with any run, such as `selected`, is one value: that of the run
    where it is given, else the policy's. A key that a method has, too, is refused, unless only the
    method's own policy reads it.
    """
    if keys.get(POLICY) is None:
        return {key: value for key, value in keys.items() if key != POLICY}
    policy, options, rest = as_policy(keys[POLICY]), {}, {}
    names, shared = options_of(type(policy)), shared_options(type(policy))
    for key, value in keys.items():
        if key not in names or key in part_options():
            rest[key] = value
            continue
        for kind in kinds:
            twice = key in options_of(kind) and key not in kind.policy_options
            both = f"{kind.name} and of policy {type(policy).__name__}"
            rule = f"is an option of {both}; say whose it is by a table in TOML, or in Python"
            require(not twice, key, value, rule)
        options[key] = value
    options |= {key: rest[key] for key in shared if key != K and rest.get(key) is not None}
    policy = with_options(policy, options)
    own = [key for key in shared if key in policy.given or not (is_ours(policy) or key == K)]
    return {**{key: getattr(policy, key) for key in own}, **rest, POLICY: policy}


def _own_options(policy: Policy) -> list[str]:
    """The options of a policy that are not keys of any run."""
    shared = shared_options(type(policy))
    return [key for key in options_of(type(policy)) if key not in shared]


def unknown_key(key: str, value: object, kind: type[AnyMethod], policy: object = None) -> BadInput:
    """The refusal of a key that is neither a part's nor the method's."""
    refused = foreign_option(key, value, [kind])
    if "unknown key" not in str(refused):
        return refused
    known = [*part_options(), *options_of(kind)]
    known += options_of(type(policy)) if isinstance(policy, Policy) else ()
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
        for key, value in given_keys(asked).items()
        if key in part_options() or key in own or key == LABEL
    }
    if (policy := asked.policy) is not None:
        shared = shared_options(type(policy))
        kept[POLICY] = with_options(policy, {key: keys[key] for key in shared if key in keys})
    return make_spec({**kept, **keys, ALGORITHM: name})


def given_keys(spec: Spec) -> dict[str, object]:
    """Keys from which `make_spec` makes the same specification, as it was asked for."""
    asked = spec.as_given or spec
    if not asked.fleet.has_links:
        return asked.given
    # Also if it has the value that is usual without links.
    return {**asked.given, _INTERACTION: asked.clock.interaction_time}


T = TypeVar("T")


def required(value: T | None) -> T:
    """A key of a complete specification, where nothing is open any more."""
    assert value is not None
    return value
