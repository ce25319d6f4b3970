"""The optimisers of a run in words."""

from __future__ import annotations

from typing import Final

from favano.specification.spec import Spec

_TITLES: Final = {"sgd": "SGD", "adam": "Adam", "adamw": "AdamW"}


def describe_optimiser(spec: Spec) -> str | None:
    """How clients and server make their steps; None for plain SGD of a constant rate.

    >>> from favano.specification.spec import make_spec
    >>> describe_optimiser(make_spec({"momentum": 0.9, "clip": 1, "rate_schedule": "cosine"}))
    'SGD, momentum 0.9, gradients clipped at 1, rate schedule cosine'
    >>> describe_optimiser(make_spec({"algorithm": "fedavg", "server_optimiser": "yogi"}))
    'SGD, on the server yogi:rate=0.01:momentum=0.9:epsilon=0.001:beta2=0.99'
    """
    training, optimiser = spec.training, spec.training.local_optimiser
    momentum = optimiser.momentum if optimiser.name == "sgd" else 0
    said = {
        f"momentum {momentum:g}{' (Nesterov)' if optimiser.nesterov else ''}": momentum,
        f"weight decay {optimiser.weight_decay:g}": optimiser.weight_decay,
        f"gradients clipped at {optimiser.clip or 0:g}": optimiser.clip,
        "state kept by clients": optimiser.kept,
        f"rate schedule {training.rate_schedule}": training.rate_schedule != "constant",
        f"warm-up {training.warm_up:g}": training.warm_up,
    }
    parts = [_TITLES[optimiser.name], *(words for words, used in said.items() if used)]
    if chain := spec.server.chain:
        parts.append(f"on the server {', then '.join(map(str, chain))}")
    return None if parts == [_TITLES["sgd"]] else ", ".join(parts)
