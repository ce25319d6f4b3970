"""Specifications and bound methods for tests, from flat keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from favano.methods import AnyMethod, make_method, method_class
from favano.options import options_of
from favano.planning.comparison import read_keys
from favano.planning.planned import OPEN_KEYS, bind_method
from favano.records import Row
from favano.specification.config import read_config
from favano.specification.presets import resolve
from favano.specification.spec import Spec, changed, make_spec


def spec_of(**keys: object) -> Spec:
    """A specification as it is asked for."""
    return make_spec(keys)


def read_spec(path: Path) -> Spec:
    """The specification in a file, of its first method."""
    return make_spec(read_config(path).first)


def unchained(rows: Iterable[Row]) -> list[Row]:
    """Rows without their chain, which differs between ways to ask for the same numbers."""
    return [row._replace(digest="") for row in rows]


def read_by(keys: Mapping[str, object]) -> dict[str, object]:
    """The same without `selected` and K where the method of the keys does not look at them."""
    name = str(keys.get("algorithm", "favano"))
    options = options_of(method_class(name))
    method = make_method(name, {key: value for key, value in keys.items() if key in options})
    read = read_keys(method)
    return {key: value for key, value in keys.items() if key not in OPEN_KEYS or key in read}


def variant(spec: Spec, keys: Mapping[str, object]) -> Spec:
    """A specification with some keys replaced, as far as its method looks at them."""
    return make_spec(read_by({**changed(spec, keys).given, **keys}))


def complete(**keys: object) -> Spec:
    """A complete specification."""
    return resolve(make_spec(keys))


def bound(seed: int = 0, **keys: object) -> AnyMethod:
    """The method of a specification, bound to the fleet of a seed."""
    return bind_method(complete(**keys), seed)
