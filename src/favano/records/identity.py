"""Whose a saved state or result is: what must be equal for a run to go on, or to be replaced."""

from __future__ import annotations

from collections.abc import Mapping

Identity = Mapping[str, object]  # values, digests and words; some values have named parts


def differing(identity: Identity, other: Identity) -> list[str]:
    """Names under which these differ; of parts, if both have some.

    >>> differing({"seed": 0, "keys": {"a": 1, "b": 2}}, {"seed": 0, "keys": {"a": 1, "b": 3}})
    ['b']
    """
    names = list[str]()
    for name in {**identity, **other}:
        mine, others = identity.get(name), other.get(name)
        if isinstance(mine, Mapping) and isinstance(others, Mapping):
            names += differing(mine, others)
        elif mine != others:
            names.append(name)
    return names
