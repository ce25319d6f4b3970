"""Specifications in TOML files: a table per part, and one or more methods.

The same file serves one run, of its first method, and a comparison of all of them. Keys may also
stand at the top, without tables, as in release 0.1.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from favano.errors import BadInput, require
from favano.file_sizes import read_limited
from favano.methods import all_methods
from favano.options import did_you_mean, options_of
from favano.specification.spec import ALGORITHM, LABEL, PARTS, Spec

METHOD, NAME, SET = "method", "name", "set"
_LISTED = "algorithms"  # of release 0.1

Keys = dict[str, object]


@dataclass(frozen=True)
class Config:
    """What a file says: keys for all methods, and the methods with keys of their own."""

    shared: Keys = field(default_factory=dict)
    methods: tuple[Keys, ...] = ()


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


def config_of(table: Mapping[str, object]) -> Config:
    """The keys of a parsed file."""
    shared: Keys = {}
    for key, value in table.items():
        if key in PARTS:
            _check_part(key, value)
            assert isinstance(value, dict)
            _need_once(value, table, f"[{key}]", "at the top of the file")
            shared |= value
        elif key not in (METHOD, SET, _LISTED):
            if isinstance(value, dict):
                known = did_you_mean(key, [*PARTS, METHOD])
                raise BadInput("config", key, f"unknown table; {known}")
            shared[key] = value
    return Config(_without_idle_key(shared), tuple(_methods(table)))


def _without_idle_key(shared: Keys) -> Keys:
    """The same without a key that 0.1 filled in for modes of FedBuff that do not look at it."""
    mode, filled = shared.get("buffer_mode", "concurrency"), shared.get("concurrency")
    idle = mode != "concurrency" and filled is not None and filled == shared.get("selected")
    return {key: value for key, value in shared.items() if key != "concurrency" or not idle}


def _need_once(keys: Keys, others: Mapping[str, object], place: str, other: str) -> None:
    """Refuse a key that is in another place of the file, too."""
    for key, value in keys.items():
        rule = f"is given in {place} and {other}; leave one of them out"
        require(key not in others, key, value, rule)


def _check_part(part: str, value: object) -> None:
    """Refuse a key in a table that it does not belong to."""
    require(isinstance(value, dict), part, value, f"need a table, as [{part}]")
    assert isinstance(value, dict)
    for key in value:
        owner = next((name for name, kind in PARTS.items() if key in options_of(kind)), None)
        rule = f"unknown key of [{part}]; {did_you_mean(key, options_of(PARTS[part]))}"
        if owner is not None:
            rule = f"belongs into [{owner}]"
        elif any(key in options_of(kind) for kind in all_methods().values()):
            rule = f"belongs into [[{METHOD}]]"
        require(owner == part, key, value[key], rule)


def _methods(table: Mapping[str, object]) -> list[Keys]:
    """The methods that a file names, each with its keys."""
    given = table.get(METHOD, [])
    listed = [given] if isinstance(given, dict) else given
    right = isinstance(listed, list) and all(isinstance(item, dict) for item in listed)
    require(right, METHOD, given, f"need tables, as [[{METHOD}]]")
    assert isinstance(listed, list)
    methods: list[Keys] = []
    for entry in listed:
        require(NAME in entry, METHOD, entry, f"need the {NAME} of the method")
        rule = f"is given in [[{METHOD}]] with {NAME}={entry[NAME]}; leave one of them out"
        require(ALGORITHM not in entry, ALGORITHM, entry.get(ALGORITHM), rule)
        methods.append({ALGORITHM if key == NAME else key: value for key, value in entry.items()})
    names = table.get(_LISTED, [])
    words = names if isinstance(names, list) else str(names).split(",")
    methods += [{ALGORITHM: str(name)} for name in words]
    own = table.get(SET, {})
    tables = isinstance(own, dict) and all(isinstance(item, dict) for item in own.values())
    require(tables, SET, own, "need a table per method, as [set.fedbuff]")
    assert isinstance(own, dict)
    for name, keys in own.items():
        known = [str(named.get(LABEL) or named[ALGORITHM]) for named in methods]
        require(name in known, SET, name, f"not compared; need one of {', '.join(known)}")
        method = methods[known.index(name)]
        _need_once(keys, method, f"[{SET}.{name}]", f"[[{METHOD}]]")
        method |= keys
    return methods


def spec_tables(spec: Spec) -> dict[str, object]:
    """A specification as a file has it: values that are not set are left out."""
    keys = spec_keys(spec)
    parts = {
        part: {key: keys[key] for key in options_of(kind) if key in keys}
        for part, kind in PARTS.items()
    }
    label = {LABEL: spec.method.label} if spec.method.label else {}
    own = {key: keys[key] for key in options_of(type(spec.method)) if key in keys}
    return {**parts, METHOD: [{NAME: keys[ALGORITHM], **label, **own}]}


def spec_keys(spec: Spec) -> Keys:
    """The flat keys of a specification as JSON has them: values that are not set are left out."""
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in spec.keys.items()
        if value is not None
    }
