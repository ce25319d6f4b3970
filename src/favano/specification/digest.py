"""Names for runs: a digest of everything that defines one.

Digests are made of the flat keys that release 0.1 had, so that its results are still recognised. It
filled in the keys of some methods for all of them; keys added since count only where they differ
from their default.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import cast

from favano.methods import is_ours, source_digest
from favano.methods.favano import Favano
from favano.options import options_of
from favano.specification.config import Config, spec_keys
from favano.specification.presets import preset_of
from favano.specification.spec import ALGORITHM, LABEL, Spec, part_options

_SAME_NUMBERS = ("horizon", "seeds", "seed", "device", "kernels", "engine", "track_bound")
_ALL_AT_WORK = ("asyncsgd-adaptive", "fedasync", "asofed")


def run_digest(spec: Spec) -> str:
    """A name for the result of a complete specification: equal specifications are one run."""
    keys = flat_keys(spec)
    if source := source_digest(spec.method):
        keys = {**keys, "source": source}
    text = json.dumps(keys, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def asked_digest(spec: Spec) -> str:
    """A digest of what a run computes: not how long, for which seeds, or where."""
    asked = {key: value for key, value in flat_keys(spec).items() if key not in _SAME_NUMBERS}
    text = json.dumps(asked, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def flat_keys(spec: Spec) -> dict[str, object]:
    """The keys of a complete specification that release 0.1 would have written into a digest."""
    keys = {key: value for key, value in spec.given.items() if key != LABEL}
    if keys[ALGORITHM] == Favano.name:
        del keys[ALGORITHM]
    theirs = () if is_ours(spec.method) else options_of(type(spec.method))
    filled = {key: value for key, value in _filled_in(spec).items() if key not in theirs}
    return {**keys, **filled}


def server_rate(spec: Spec) -> float:
    """The step of the server, 1 for methods without one."""
    return cast(float, _filled_in(spec)["server_learning_rate"])


def _filled_in(spec: Spec) -> dict[str, object]:
    """What 0.1 filled in, whether the method looked at it or not."""
    method, name = spec.method, spec.method.name
    own = {key: getattr(method, key, None) for key in _OWNED}
    everyone = name in _ALL_AT_WORK or (name == "asyncsgd" and own["assignment"] == "same")
    concurrency = own["concurrency"] or (spec.fleet.clients if everyone else spec.clock.selected)
    assert isinstance(concurrency, int)
    server = 1.0 / concurrency if name.startswith("asyncsgd") else 1.0
    rate = own["server_learning_rate"]
    filled: dict[str, object] = {
        "buffer": own["buffer"] or preset_of(spec.problem.dataset).buffer,
        "concurrency": concurrency,
        "assignment": own["assignment"] or "uniform",
        "delays": own["delays"] or "none",
        "rate_scale": own["rate_scale"] or "none",
        "server_learning_rate": server if rate is None else rate,
    }
    if name == "asyncfeded":
        steps = spec.training.local_steps or 1
        filled["most_local_steps"] = own["most_local_steps"] or 10 * steps
    return filled


_OWNED = (
    "buffer",
    "concurrency",
    "assignment",
    "delays",
    "rate_scale",
    "server_learning_rate",
    "most_local_steps",
)


def differing_keys(held: Config, spec: Spec) -> list[str]:
    """Keys in which a complete specification differs from what the file of a result says.

    What the file leaves out is at its default. A file of release 0.1 also says what was filled in
    where an option of the method was left open.
    """
    first = held.methods[0] if held.methods else {}
    said = {**held.shared, **first}
    mine, defaults = spec_keys(spec), _defaults(spec)
    if spec.method.label:
        mine[LABEL] = spec.method.label
    every = dict.fromkeys([*said, *mine])
    unset = defaults.get
    return sorted(key for key in every if said.get(key, unset(key)) != mine.get(key, unset(key)))


def _defaults(spec: Spec) -> dict[str, object]:
    """What the keys of a run are where a file leaves them out."""
    parts = {key: option.default for key, (_, option) in part_options().items()}
    own = {key: option.default for key, option in options_of(type(spec.method)).items()}
    usual = {ALGORITHM: Favano.name, LABEL: "", **parts, **own}
    preset = preset_of(spec.problem.dataset)._asdict() | dict(spec.method.suggests)
    for key in (key for key, value in usual.items() if value is None):
        filled = key in _OWNED and is_ours(spec.method)
        usual[key] = _filled_in(_opened(spec, key))[key] if filled else preset.get(key)
    return {key: list(value) if isinstance(value, tuple) else value for key, value in usual.items()}


def _opened(spec: Spec, key: str) -> Spec:
    """The same without what was given for one option of the method."""
    without: dict[str, object] = {key: None}
    return replace(spec, method=replace(spec.method, **without))  # type: ignore[arg-type]
