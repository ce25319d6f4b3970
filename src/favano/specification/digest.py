"""Names for runs: a digest of everything that defines one.

Keys count where they differ from their default, so that new ones change no digest. The few in
`_filled_in` always count, since committed results were named so.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import cast

from favano.methods.favano import Favano
from favano.options import options_of
from favano.specification.config import file_values, spec_keys
from favano.specification.presets import preset_of
from favano.specification.spec import ALGORITHM, LABEL, Spec, part_options
from favano.user_classes import is_ours

_SAME_NUMBERS = ("horizon", "seeds", "seed", "device", "kernels", "engine", "track_bound")
_ALL_AT_WORK = ("asyncsgd-adaptive", "fedasync", "asofed")


def run_digest(spec: Spec) -> str:
    """A name for the result of a complete specification: equal specifications are one run."""
    keys = flat_keys(spec)
    if source := spec.source:
        keys = {**keys, "source": source}
    text = json.dumps(keys, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def asked_digest(spec: Spec) -> str:
    """A digest of what a run computes: not how long, for which seeds, or where."""
    asked = {key: value for key, value in flat_keys(spec).items() if key not in _SAME_NUMBERS}
    text = json.dumps(asked, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def flat_keys(spec: Spec) -> dict[str, object]:
    """The keys of a complete specification that its digest is made of."""
    keys = {key: value for key, value in spec.given.items() if key != LABEL}
    if keys[ALGORITHM] == Favano.name:
        del keys[ALGORITHM]
    if is_ours(spec.method) and keys.get("weights") == "exact":  # the default before 0.3.1
        del keys["weights"]
    theirs = () if is_ours(spec.method) else options_of(type(spec.method))
    filled = {key: value for key, value in _filled_in(spec).items() if key not in theirs}
    return {**keys, **filled}


def server_rate(spec: Spec) -> float:
    """The step of the server, 1 for methods without one."""
    return cast(float, _filled_in(spec)["server_learning_rate"])


def _filled_in(spec: Spec) -> dict[str, object]:
    """Options that count in every digest, whether the method has them or not."""
    name = spec.method.name
    keys = ("buffer", "concurrency", "assignment", "delays", "rate_scale", "server_learning_rate")
    own = {key: getattr(spec.method, key, None) for key in keys}
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
        longest = steps if isinstance(steps, int) else max(steps)
        filled["most_local_steps"] = getattr(spec.method, "most_local_steps", None) or 10 * longest
    return filled


def differing_keys(held: Mapping[str, object], spec: Spec) -> list[str]:
    """Keys in which a complete specification differs from what the file of a result says.

    What the file leaves out is at its default.
    """
    parts = {key: option.default for key, (_, option) in part_options().items()}
    own = {key: option.default for key, option in options_of(type(spec.method)).items()}
    defaults = {LABEL: "", **file_values({**parts, **own})}
    said = {**defaults, **held}
    mine = {**defaults, **spec_keys(spec), LABEL: spec.method.label}
    return sorted(key for key in {**said, **mine} if said.get(key) != mine.get(key))
