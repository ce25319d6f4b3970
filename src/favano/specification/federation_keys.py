"""Keys of a specification that mean something in a federation, whose time and speeds are real."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from favano.errors import require
from favano.options import options_of
from favano.specification.parts import TrainingPart
from favano.specification.spec import PARTS, Spec

_KEYS: Mapping[str, Collection[str]] = {
    "problem": {"dataset", "split", "model", "batch_size", "batch_order"},
    "fleet": {"clients"},
    "clock": {"selected", "selection", "deadline"},
    "training": options_of(TrainingPart).keys() - {"rate_decay"},
    "run": {"seed", "buffers", "codec", "codec_bits", "codec_scale", "codec_dither"},
}


def simulated_keys() -> set[str]:
    """Keys that only simulations have."""
    return {key for part, known in _KEYS.items() for key in options_of(PARTS[part]).keys() - known}


def check_keys(spec: Spec) -> None:
    """Refuse keys that only simulations have."""
    simulated, asked = simulated_keys(), spec.as_given or spec
    for part in _KEYS:
        for key, value in getattr(asked, part).given.items():
            rule = "is a key of simulations, which a federation does not have; remove it"
            require(key not in simulated, key, value, rule)
