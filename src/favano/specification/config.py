"""Specifications in TOML files: a table per part, and one or more methods.

The same file serves one run, of its first method, and a comparison of all of them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from favano.errors import BadInput, require
from favano.file_sizes import read_limited
from favano.methods import all_methods
from favano.methods.favano import Favano
from favano.options import did_you_mean, options_of
from favano.policies.registry import NAME as NAME
from favano.specification.readings import READING
from favano.specification.spec import ALGORITHM, LABEL, PARTS, POLICY, Spec, part_options

METHOD = "method"
SERVER = "server"  # a table of flags, or a list of transforms
_UNIT = "local_steps_unit"

Keys = dict[str, object]


@dataclass(frozen=True)
class Config:
    """What a file says: keys for all methods, and the methods with keys of their own."""

    shared: Keys = field(default_factory=dict)
    methods: tuple[Keys, ...] = ()

    @property
    def first(self) -> Keys:
        """The keys of one run, of the first method."""
        return {**self.shared, **(self.methods[0] if self.methods else {})}


def read_config(path: Path | None) -> Config:
    """The keys of a file; one that does not parse is refused by name. No file says nothing."""
    if path is None:
        return Config()
    require(path.is_file(), "config", path, "no such file")
    try:
        text = read_limited(path, "config")
    except OSError as error:
        raise BadInput("config", path, f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadInput("config", path, f"is not valid TOML: {error}") from error
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput("config", path, f"is not valid TOML: {error}") from error
    return config_of(table)


def keys_from_toml(text: str) -> Keys:
    r"""The flat keys of a `spec.toml`; the name of its method is `algorithm`.

    >>> keys_from_toml("[fleet]\nclients = 9\n[[method]]\nname = 'fedbuff'")
    {'clients': 9, 'algorithm': 'fedbuff'}
    """
    return config_of(tomllib.loads(text)).first


def config_of(table: Mapping[str, object]) -> Config:
    """The keys of a parsed file."""
    shared: Keys = {}
    for part, value in table.items():
        if part == SERVER and isinstance(value, list):
            shared[SERVER] = value
        elif part == READING and not isinstance(value, dict):
            shared[READING] = value
        elif part == POLICY:
            right = isinstance(value, dict) and NAME in value
            require(right, POLICY, value, f"need a table, as [{POLICY}], with its {NAME}")
            assert isinstance(value, dict)
            shared[POLICY] = _without_keys_of_run(value, table)
            shared |= {key: value[key] for key in value if key in part_options()}
        elif part in PARTS:
            require(isinstance(value, dict), part, value, f"need a table, as [{part}]")
            assert isinstance(value, dict)
            value = _with_epochs(value)
            for key in value:
                right = key in options_of(PARTS[part]) and key != SERVER
                require(right, key, value[key], _place(key, part))
            shared |= value
        elif isinstance(value, dict) and part != METHOD:
            known = did_you_mean(part, [*PARTS, METHOD, POLICY])
            raise BadInput("config", part, f"unknown table; {known}")
        else:
            require(part == METHOD, part, value, _place(part))
    return Config(shared, tuple(_methods(table)))


def _with_epochs(training: Keys) -> Keys:
    """The table of a file of 0.2, where K was counted in a unit: steps, or epochs."""
    unit, rest = training.get(_UNIT), {key: training[key] for key in training if key != _UNIT}
    if unit != "epochs":
        return rest if unit == "steps" else training
    return {"local_epochs" if key == "local_steps" else key: rest[key] for key in rest}


def _without_keys_of_run(policy: Keys, table: Mapping[str, object]) -> Keys:
    """The table of a policy without what any run has, such as `selected`, which is given once."""
    for key in policy.keys() & part_options().keys():
        part = part_options()[key][0]
        held = table.get(part)
        twice = isinstance(held, dict) and key in held
        require(not twice, key, policy[key], f"is given in [{part}], too; remove one of them")
    return {key: value for key, value in policy.items() if key not in part_options()}


def _place(key: str, part: str | None = None) -> str:
    """Where a key belongs that is in another table, or in none."""
    if key == SERVER:
        return f"belongs at the top of the file, as {SERVER} = [...], without a table [{SERVER}]"
    for owner, kind in PARTS.items():
        if key in options_of(kind):
            return f"belongs in [{owner}]"
    own = {name for kind in all_methods().values() for name in options_of(kind)}
    if key in (ALGORITHM, LABEL) or key in own:
        return f"belongs in [[{METHOD}]]" + (f", as {NAME}" if key == ALGORITHM else "")
    known = options_of(PARTS[part]) if part else [*PARTS, METHOD, *part_options()]
    return f"unknown key{f' of [{part}]' if part else ''}; {did_you_mean(key, known)}"


def _methods(table: Mapping[str, object]) -> list[Keys]:
    """The methods that a file names, each with its keys."""
    given = table.get(METHOD, [])
    listed = [given] if isinstance(given, dict) else given
    right = isinstance(listed, list) and all(isinstance(item, dict) for item in listed)
    require(right, METHOD, given, f"need tables, as [[{METHOD}]]")
    assert isinstance(listed, list)
    for entry in listed:
        require(NAME in entry, METHOD, entry, f"need the {NAME} of the method")
        rule = f"is given in [[{METHOD}]] with {NAME}={entry[NAME]}; remove one of them"
        require(ALGORITHM not in entry, ALGORITHM, entry.get(ALGORITHM), rule)
    return [
        {ALGORITHM if key == NAME else key: value for key, value in entry.items()}
        for entry in listed
    ]


def spec_tables(keys: Mapping[str, object]) -> dict[str, object]:
    """The tables of `spec.toml`, from its flat keys."""
    parts: dict[str, object] = {
        part: {key: keys[key] for key in options_of(kind) if key in keys}
        for part, kind in PARTS.items()
    }
    if SERVER in keys:
        parts[SERVER] = keys[SERVER]  # instead of the table, whose keys do not go with it
    shared = {*part_options(), ALGORITHM, POLICY}
    own = {key: value for key, value in keys.items() if key not in shared}
    if POLICY in keys:
        parts[POLICY] = keys[POLICY]
    return {**parts, METHOD: [{NAME: keys.get(ALGORITHM, Favano.name), **own}]}


def stored_keys(spec: Spec) -> Keys:
    """The flat keys of a specification as `spec.toml` has them, with the label of the method."""
    name, keys = {ALGORITHM: spec.keys[ALGORITHM]}, spec_keys(spec)
    return {**name, **({LABEL: spec.method.label} if spec.method.label else {}), **keys}


def spec_keys(spec: Spec) -> Keys:
    """The flat keys of a specification as a file has them."""
    return file_values(spec.keys)


def file_values(keys: Mapping[str, object]) -> Keys:
    """Values as TOML and JSON have them: those that are not set are left out."""
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in keys.items()
        if value is not None
    }
