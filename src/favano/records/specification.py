"""`spec.toml`: everything that defines a run, in one table per part and one for the method.

It is read into one flat table, as it was written by release 0.1.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping


def specification_from_toml(text: str) -> dict[str, object]:
    r"""The keys of a run; the name of its method is `algorithm`.

    >>> specification_from_toml("[fleet]\nclients = 9\n[[method]]\nname = 'fedbuff'")
    {'clients': 9, 'algorithm': 'fedbuff'}
    """
    keys: dict[str, object] = {}
    for key, value in tomllib.loads(text).items():
        first = value[0] if key == "method" and isinstance(value, list) and value else value
        if key == "method" and isinstance(first, Mapping):
            keys |= {"algorithm" if name == "name" else name: item for name, item in first.items()}
        elif isinstance(value, Mapping):
            keys |= value
        else:
            keys[key] = value
    return keys
