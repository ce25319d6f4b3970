"""How much a gradient counts that arrives late."""

from __future__ import annotations

from typing import Literal

import numpy as np

from favano.types import Floats, Ints

DelayRule = Literal["none", "scale", "drop"]


def delay_factor(rule: DelayRule, under_way: int, staleness: Ints) -> Floats:
    """gamma(tau) of each client update, with M jobs under way: 1, M / max(M, tau), or 1{tau <= M}.

    >>> delay_factor("scale", 4, np.array([2, 8]))
    array([1. , 0.5])
    """
    if rule == "scale":
        return np.asarray(under_way / np.maximum(under_way, staleness))
    if rule == "drop":
        return np.where(staleness <= under_way, 1.0, 0.0)
    return np.ones(len(staleness))
