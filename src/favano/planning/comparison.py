"""Specifications of several methods, or variants of one, on the same problem."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from typing import TypeAlias, cast

from favano.data import is_natural
from favano.errors import BadInput, require
from favano.methods import AnyMethod, Context, make_method, method_class
from favano.methods.clock import ServerClock
from favano.methods.favano import Favano
from favano.options import listed, options_of
from favano.planning.planned import OPEN_KEYS, make_context, policy_keys
from favano.policies import Policy
from favano.policies.registry import as_policy
from favano.quantisation.recipe import Recipe
from favano.records.folder import FILES, PAGE, RUNS_FOLDER, folder_name
from favano.records.resumption import RESUME
from favano.specification.parts import Fleet
from favano.specification.presets import check_named, resolve
from favano.specification.readings import READING, with_readings
from favano.specification.spec import (
    ALGORITHM,
    LABEL,
    POLICY,
    Spec,
    make_spec,
    part_options,
    required,
    with_policy,
)

DEFAULT = ("favano", "fedavg", "quafl", "fedbuff")
_MANY = 100_000
_Compared: TypeAlias = tuple[AnyMethod, Policy | None]  # with the policy that its run names
_TAKEN = {PAGE, RESUME, RUNS_FOLDER, *FILES}  # what is written or looked for beside such folders
_ALIKE = ("dataset", "normalise", "holdout", "data_fraction", "model", "device", "quantise")


def comparison(
    shared: Mapping[str, object],
    methods: Sequence[Mapping[str, object]],
    settings: Sequence[str] = (),
) -> list[Spec]:
    """One complete specification per method.

    Args:
        shared: keys for every method that has them.
        methods: the `algorithm` of each method, a `label` to tell variants apart, and its own keys.
        settings: keys of single methods, each as `LABEL.KEY=VALUE`; they hold for all variants.

    A number that lists several values makes a variant of a method for each of them.

    >>> both = [{"algorithm": "favano"}, {"algorithm": "fedbuff"}]
    >>> specs = comparison({"clients": 20}, both, ["fedbuff.buffer_mode=block"])
    >>> [(spec.name, spec.fleet.clients) for spec in specs], specs[1].method.given
    ([('favano', 20), ('fedbuff', 20)], {'buffer': 5, 'buffer_mode': 'block'})
    >>> [spec.name for spec in comparison({"learning_rate": "0.1,0.5"}, both[:1])]
    ['FAVANO (learning_rate=0.1)', 'FAVANO (learning_rate=0.5)']
    """
    shared = with_policy(shared, [method_class(str(method[ALGORITHM])) for method in methods])
    asked = [dict(method) for method in methods]
    by_name = _by_name(asked) if settings else {}
    for setting in settings:
        name, key, value = _setting(setting, list(by_name))
        by_name[name][key] = value
    asked = [variant for method in asked for variant in _variants_of(shared, method)]
    kinds = [_with_options({**shared, **method}) for method in asked]
    shared = with_readings(shared, lambda: _read_by(kinds))
    made = [
        make_spec({**_taken(shared, [kind], kinds), **method})
        for kind, method in zip(kinds, asked, strict=True)
    ]
    specs = [resolve(spec) for spec in label_variants(made)]
    for spec in specs:
        check_named(spec)
    natural = any(is_natural(required(spec.problem.split)) for spec in specs)
    for key in (*_ALIKE, *(["split"] if natural else []), *Recipe.__dataclass_fields__):
        alike = len({spec.keys[key] for spec in specs}) == 1
        require(alike, "set", key, "must be the same for all methods that are compared")
    return specs


def _read_by(compared: Iterable[_Compared]) -> set[str]:
    """Keys of the clock that any of these methods depends on, and those of its policy."""
    return {key for method, policy in compared for key in read_keys(method, policy)}


def keys_with_readings(
    keys: Mapping[str, object], methods: Sequence[AnyMethod] = ()
) -> dict[str, object]:
    """The keys of one run, or of these methods, with those of the readings that they name."""
    if READING not in keys:
        return dict(keys)
    policy = None if keys.get(POLICY) is None else as_policy(keys[POLICY])
    named = [(method, policy) for method in methods]
    return with_readings(
        keys, lambda: _read_by(named or [_with_options({ALGORITHM: Favano.name, **keys})])
    )


def left_without(keys: Mapping[str, object], methods: Iterable[AnyMethod]) -> list[str]:
    """A sentence for each of several methods that runs without one of the keys, and why."""
    return [
        f"{method.label or method.name} runs without {key}, which has no meaning there: {why}"
        for method in methods
        for key, why in method.meaningless.items()
        if keys.get(key) not in (None, False)
    ]


def without_exact_weights(specs: Iterable[Spec]) -> list[str]:
    """A sentence for each run whose weights are empirical since it has no exact ones."""
    return [
        f"{spec.name} takes weights=empirical, from contacts so far: {spec.lawless} leaves "
        "no exact law of clients' steps"
        for spec in specs
        if getattr((spec.as_given or spec).method, "weights", "exact") is None
        and getattr(resolve(spec).method, "weights", "exact") == "empirical"
    ]


def _variants_of(
    shared: Mapping[str, object], method: Mapping[str, object]
) -> list[dict[str, object]]:
    """A method, or variants of it by the numbers that list several values."""
    kind = method_class(str(method[ALGORITHM]))
    keys = {**shared, **method}
    several = several_values(keys, kind)
    steps = listed(keys.get("local_steps"))
    clear = len(steps) == 1 or "clients" in keys or "mean" in keys
    rule = "is a number for each client; give clients, too, or a [[method]] for each in a file"
    require(clear, "local_steps", ",".join(map(str, steps)), rule)
    made, policy = _with_options({**keys, **{key: values[0] for key, values in several.items()}})
    several = {key: values for key, values in several.items() if takes(key, made, policy)}
    name = str(method.get(LABEL) or kind.title)
    return [{**method, **values} for values in variants(several, name)]


def several_values(keys: Mapping[str, object], kind: type[AnyMethod]) -> dict[str, list[object]]:
    """The keys that are one number, and of which several are given."""
    known = {key: option for key, (_, option) in part_options().items()} | {**options_of(kind)}
    several = {
        key: listed(value)
        for key, value in keys.items()
        if key in known and known[key].is_number and len(listed(value)) > 1
    }
    for key in ("seed", "seeds"):
        rule = "is the same for all methods that are compared; need one number"
        require(key not in several, key, keys.get(key), rule)
    return several


def variants(several: Mapping[str, Sequence[object]], name: str) -> list[dict[str, object]]:
    """Every combination of the values, with a label; without any, nothing is changed.

    >>> variants({"buffer": [3, 5]}, "FedBuff")
    [{'buffer': 3, 'label': 'FedBuff (buffer=3)'}, {'buffer': 5, 'label': 'FedBuff (buffer=5)'}]
    """
    points = [dict(zip(several, values, strict=True)) for values in product(*several.values())]
    labels = (", ".join(f"{key}={value}" for key, value in point.items()) for point in points)
    return [
        {**point, LABEL: f"{name} ({label})"} if point else point
        for point, label in zip(points, labels, strict=True)
    ]


def chosen(
    listed: Sequence[Mapping[str, object]], named: Sequence[Mapping[str, object]]
) -> list[Mapping[str, object]]:
    """The named methods with their keys from a file; all methods of the file if none is named."""
    by_name = {str(method.get(LABEL) or method[ALGORITHM]): method for method in listed}
    return [by_name.get(str(method[ALGORITHM]), method) for method in named] or list(listed)


def keys_for(
    shared: Mapping[str, object],
    methods: Sequence[Mapping[str, object]],
    listed: Sequence[Mapping[str, object]],
) -> dict[str, object]:
    """A file's shared keys for some of its methods, without those that only other methods take."""
    wanted = [_with_options({**shared, **method}) for method in methods]
    return _taken(shared, wanted, [_with_options({**shared, **method}) for method in listed])


def shared_keys(
    keys: Mapping[str, object], method: AnyMethod, compared: Sequence[AnyMethod]
) -> dict[str, object]:
    """Those of the keys given for all compared methods that one method takes.

    Keys that only other compared methods take are dropped. A key that none of them takes is kept,
    so that it is refused later.
    """
    policy = None if keys.get(POLICY) is None else as_policy(keys[POLICY])
    return _taken(keys, [(method, policy)], [(other, policy) for other in compared])


def _taken(
    keys: Mapping[str, object], wanted: Sequence[_Compared], others: Sequence[_Compared]
) -> dict[str, object]:
    """Keys that a wanted method takes, and keys that no other method takes."""
    return {
        key: value
        for key, value in keys.items()
        if any(takes(key, *compared) for compared in wanted)
        or not any(takes(key, *compared) for compared in others)
    }


def _with_options(keys: Mapping[str, object]) -> _Compared:
    """The method that the keys name, with its options among them, and the policy if they do."""
    name = str(keys[ALGORITHM])
    kind = method_class(name)
    rest = with_policy(keys, [kind])
    policy = cast(Policy | None, rest.get(POLICY))
    return make_method(name, {key: rest[key] for key in rest if key in options_of(kind)}), policy


def takes(key: str, method: AnyMethod, policy: Policy | None) -> bool:
    """Whether a method has a key, under its own policy or this one."""
    if key in options_of(ServerClock) or key in OPEN_KEYS:
        return key in read_keys(method, policy)
    return key == POLICY or key in part_options() or key in options_of(type(method))


def read_keys(method: AnyMethod, policy: Policy | None = None) -> set[str]:
    """Keys that a method's policy depends on, however many clients there are."""
    try:
        return policy_keys(method.bind(replace(_large_context(), policy=policy)))
    except BadInput:  # here; the run that is asked for may be possible
        return {*options_of(ServerClock), *OPEN_KEYS}


@cache
def _large_context() -> Context:
    """So many clients that what fits a run fits here."""
    return make_context(resolve(Spec(fleet=Fleet(clients=_MANY))), 0)


def _by_name(asked: Sequence[dict[str, object]]) -> dict[str, dict[str, object]]:
    """The methods by all that they are called: a label, or the name that is printed and the given.

    Of several with one name it is the first.
    """
    by_name: dict[str, dict[str, object]] = {}
    for method in asked:
        given = str(method[ALGORITHM])
        names = [str(method[LABEL])] if method.get(LABEL) else [method_class(given).name, given]
        for name in names:
            by_name.setdefault(name, method)
    return by_name


def _setting(text: str, names: Sequence[str]) -> tuple[str, str, str]:
    """Method, key and value of `LABEL.KEY=VALUE`; labels may hold dots and equal signs."""
    otherwise = text.partition("=")[0].rpartition(".")[0]
    name = max(
        (label for label in names if text.startswith(f"{label}.")), key=len, default=otherwise
    )
    key, equals, value = text[len(name) + 1 :].partition("=")
    require(bool(name and key and equals), "set", text, "need METHOD.KEY=VALUE")
    require(name in names, "set", name, f"not compared; need one of {', '.join(names)}")
    return name, key.replace("-", "_"), value


def label_variants(specs: Sequence[Spec]) -> list[Spec]:
    """The specifications under different names: variants are named by how they differ."""
    labelled = [
        replace(spec, method=replace(spec.method, label=_label(spec, specs))) for spec in specs
    ]
    for name, times in Counter(spec.name for spec in labelled).items():
        require(times == 1, "algorithms", name, "is named twice; give each variant a label")
    folders: dict[str, str] = {}
    for spec in labelled:
        folder = folder_name(spec.name).casefold()
        rule = f"its folder would be named {folder}, which is taken; choose another label"
        require(folder not in _TAKEN, "label", spec.name, rule)
        other = folders.setdefault(folder, spec.name)
        rule = f"would have the same folder as {other}: {folder_name(other)}"
        require(other == spec.name, "label", spec.name, rule)
    return labelled


def _label(spec: Spec, specs: Sequence[Spec]) -> str:
    """The label of a method, or the options in which it differs from others of its name."""
    method = spec.method
    alike = [other.method for other in specs if other.name == spec.name and not other.method.label]
    apart = [
        key
        for key in options_of(type(method))
        if any(getattr(other, key, None) != getattr(method, key) for other in alike)
    ]
    own = [f"{key}={value}" for key, value in method.given.items() if key in apart]
    policies = [other.policy for other in specs if other.name == spec.name]
    words = ", ".join([*own, *_policy_words(spec.policy, policies)])
    return f"{method.title} ({words})" if words and not method.label else method.label


def _policy_words(policy: Policy | None, others: Sequence[Policy | None]) -> list[str]:
    """How a policy differs from others: by its name, and by its options from those of its name."""
    if policy is None:
        return []
    alike = [other for other in others if type(other) is type(policy)]
    names = options_of(type(policy))
    apart = [key for key in names if any(getattr(o, key) != getattr(policy, key) for o in alike)]
    named = [type(policy).__name__] if len(alike) < len(others) else []
    return [*named, *(f"{key}={getattr(policy, key)}" for key in apart)]
