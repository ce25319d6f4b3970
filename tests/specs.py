"""Specifications and bound methods for tests, from flat keys."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from favano.methods import AnyMethod
from favano.planning.planned import bind_method
from favano.records import Row
from favano.specification.config import read_config
from favano.specification.presets import resolve
from favano.specification.spec import Spec, make_spec


def spec_of(**keys: object) -> Spec:
    """A specification as it is asked for."""
    return make_spec(keys)


def read_spec(path: Path) -> Spec:
    """The specification in a file, of its first method."""
    found = read_config(path)
    return make_spec({**found.shared, **(found.methods[0] if found.methods else {})})


def unchained(rows: Iterable[Row]) -> list[Row]:
    """Rows without their chain, which differs between ways to ask for the same numbers."""
    return [row._replace(digest="") for row in rows]


def complete(**keys: object) -> Spec:
    """A complete specification."""
    return resolve(make_spec(keys))


def bound(seed: int = 0, **keys: object) -> AnyMethod:
    """The method of a specification, bound to the fleet of a seed."""
    return bind_method(complete(**keys), seed)
