"""Whether a method keeps no model besides that of the server."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import numpy as np
import torch

from favano.methods import Answers, AnyMethod, State


def keeps_one_model(method: AnyMethod) -> bool:
    """Whether the state of a method has one model only, after a test update of two numbers."""
    if method.corrects or not (method.linear or method.distances):
        return False
    one, two = np.zeros(1, dtype=np.int64), torch.zeros(1, 2)
    about = Answers(one, one + 1, one, np.ones(1), 0, two, two + 1.0)
    before = method.init(two[0])
    return not any(_holds_models(state) for state in (before, method.update(before, about)))


def _holds_models(state: State) -> bool:
    """Whether a state has tensors besides the server model."""

    def tensors(value: object) -> int:
        if isinstance(value, torch.Tensor):
            return 1
        inner = value.values() if isinstance(value, dict) else value
        nested = isinstance(inner, Iterable) and not isinstance(inner, str | np.ndarray)
        return sum(map(tensors, cast(Iterable[object], inner))) if nested else 0

    return tensors(tuple(cast(Iterable[object], state))) > 1
