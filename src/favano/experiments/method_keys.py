"""Which methods a key belongs to; keys that are not listed belong to the setting of any run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from favano.errors import BadInput, need
from favano.experiments.spec import Spec

_ROUNDS = ("fedavg", "fedprox", "fednova", "scaffold")
_FAVANO = ("favano", "favano-delta")
_FEDBUFF = ("fedbuff",)
_ASYNCSGD = ("asyncsgd", "asyncsgd-adaptive")
_ASYNCFEDED = ("asyncfeded",)

OWNERS: Final[Mapping[str, tuple[str, ...]]] = {
    "round_time": _ROUNDS,
    "deadline": _ROUNDS,
    "at_deadline": _ROUNDS,
    "drop_last": _ROUNDS,
    "server_learning_rate": (
        "favano-delta", *_ROUNDS, *_FEDBUFF, *_ASYNCSGD, "fedfix", *_ASYNCFEDED
    ),
    "rate_scale": ("favano", "quafl", *_FEDBUFF),
    "reweight": _FAVANO,
    "weights": _FAVANO,
    "given_weights": _FAVANO,
    "sample_weights": ("fedavg", "fedprox", "fednova", "aafl", "fedfix"),
    "client_averaging": ("quafl",),
    "server_averaging": ("quafl",),
    "dampening": ("quafl",),
    "buffer": _FEDBUFF,
    "buffer_mode": _FEDBUFF,
    "distinct": _FEDBUFF,
    "flush_at_end": _FEDBUFF,
    "staleness": (*_FEDBUFF, "fedasync"),
    "max_staleness": (*_FEDBUFF, "fedasync"),
    "concurrency": (*_FEDBUFF, *_ASYNCSGD, "fedasync"),
    "assignment": _ASYNCSGD,
    "gradients_per_job": _ASYNCSGD,
    "delays": _ASYNCSGD,
    "latency": (*_ASYNCSGD, "fedasync", *_ASYNCFEDED),
    "mixing": ("fedasync",),
    "halve_mixing_at": ("fedasync",),
    "arrival_fraction": ("aafl",),
    "arrival_weights": ("aafl",),
    "window": ("fedfix",),
    "window_weights": ("fedfix",),
    "distance_offset": _ASYNCFEDED,
    "distance_target": _ASYNCFEDED,
    "distance_gain": _ASYNCFEDED,
    "most_local_steps": _ASYNCFEDED,
}  # fmt: skip
_VALUES: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("rate_scale", "selected"): ("favano", "quafl"),
    ("rate_scale", "buffer"): _FEDBUFF,
}
_SPEEDS: Final = ("fast_fraction", "fast_mean", "slow_mean", "speed_rounding", "speed_order")


def applies(key: str, value: object, algorithm: str) -> bool:
    """Whether a method looks at this value of a key.

    >>> applies("mixing", 0.3, "fedasync"), applies("mixing", 0.3, "fedavg")
    (True, False)
    >>> applies("horizon", 100, "fedavg")
    True
    """
    owners = _owners(key, value)
    return owners is None or algorithm in owners


def without_foreign(keys: Mapping[str, object], algorithm: str) -> dict[str, object]:
    """The keys that a method looks at."""
    return {key: value for key, value in keys.items() if applies(key, value, algorithm)}


def shared_keys(
    keys: Mapping[str, object], algorithm: str, compared: Sequence[str]
) -> dict[str, object]:
    """What one of several methods takes of the keys given for all of them.

    A key that belongs to others that are compared is theirs. One that belongs to none of them is
    kept, so that it is refused.
    """
    return {
        key: value
        for key, value in keys.items()
        if applies(key, value, algorithm) or not any(applies(key, value, one) for one in compared)
    }


def check_keys(spec: Spec, defaults: Spec) -> None:
    """Refuse a key of another method, unless it has the value it would have anyway.

    Args:
        spec: as it was given.
        defaults: the same specification without any key of a method, completed.
    """
    for key, value in _foreign(spec):
        if value not in (Spec.model_fields[key].default, getattr(defaults, key)):
            owners = ", ".join(_owners(key, value) or ())
            raise BadInput(key, value, f"is a key of {owners}, not of {spec.algorithm}")


def check_options(spec: Spec, defaults: Spec) -> None:
    """Refuse a key that another key of the same specification makes meaningless."""
    if spec.algorithm == "fedbuff":
        mode = spec.buffer_mode
        kept = mode == "concurrency" or spec.concurrency in (None, defaults.concurrency)
        rule = f"goes with buffer_mode=concurrency; in mode {mode} all clients are at work"
        if mode == "reset":
            _check_unset(spec, ("distinct", "max_staleness", "flush_at_end"), "buffer_mode=reset")
        need(kept, "concurrency", spec.concurrency, rule)
    if spec.reweight == "none":
        _check_unset(spec, ("weights",), "reweight=none, which divides by nothing")
    late = spec.deadline is not None or spec.at_deadline == "drop"
    need(late, "at_deadline", spec.at_deadline, "goes with a deadline")
    if spec.arrival_weights == "mean":
        _check_unset(spec, ("sample_weights",), "arrival_weights=mean, which weighs all alike")
    if spec.step_law.startswith("trace:"):
        _check_unset(spec, _SPEEDS, "a trace, which says how fast each client is")


def _check_unset(spec: Spec, keys: Iterable[str], beside: str) -> None:
    for key in keys:
        value = getattr(spec, key)
        unset = value == Spec.model_fields[key].default
        need(unset, key, value, f"has no effect with {beside}; leave it out")


def _foreign(spec: Spec) -> Iterable[tuple[str, object]]:
    for key in OWNERS:
        value = getattr(spec, key)
        if not applies(key, value, spec.algorithm):
            yield key, value


def _owners(key: str, value: object) -> tuple[str, ...] | None:
    return _VALUES.get((key, str(value)), OWNERS.get(key))
