"""Specifications and bound methods for tests, from flat keys."""

from __future__ import annotations

from favano.methods import AnyMethod
from favano.planning.planned import bind_method
from favano.specification.presets import resolve
from favano.specification.spec import Spec, make_spec


def spec_of(**keys: object) -> Spec:
    """A specification as it is asked for."""
    return make_spec(keys)


def complete(**keys: object) -> Spec:
    """A complete specification."""
    return resolve(make_spec(keys))


def bound(seed: int = 0, **keys: object) -> AnyMethod:
    """The method of a specification, bound to the fleet of a seed."""
    return bind_method(complete(**keys), seed)
