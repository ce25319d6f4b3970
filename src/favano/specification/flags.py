"""A specification as the flags of `favano run`."""

from __future__ import annotations

from collections.abc import Mapping

from favano.policies.registry import NAME
from favano.specification.spec import POLICY, Spec, given_keys


def flags_of(spec: Spec) -> list[str]:
    """The words that give every key which was asked for.

    >>> from favano.specification.spec import make_spec
    >>> " ".join(flags_of(make_spec({"algorithm": "quafl", "seeds": 2, "server_averaging": False})))
    '--algorithm quafl --no-server-averaging --seeds 2'
    """
    words = []
    for key, value in given_keys(spec).items():
        if key == POLICY and isinstance(value, Mapping):
            named = {POLICY: value[NAME], **{k: v for k, v in value.items() if k != NAME}}
            words += [word for name, own in named.items() for word in _flag(name, own)]
        else:
            words += _flag(key, value)
    return words


def _flag(key: str, value: object) -> list[str]:
    name = key.replace("_", "-")
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--no-{name}"]
    return [
        f"--{name}",
        ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value),
    ]
