"""Whether a method keeps no model besides that of the server."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from favano.methods import AnyMethod, ClientUpdates


def keeps_one_model(method: AnyMethod) -> bool:
    """Whether the state of a method has one model only, after a test update of two numbers."""
    if method.corrects or not (method.linear or method.distances):
        return False
    # Tried out, since anybody's method may say that it is linear and keep more than it says.
    zero, two = np.zeros(1, dtype=np.int64), torch.zeros(1, 2)
    about = ClientUpdates(zero, zero + 1, zero, np.ones(1), 0, two, two + 1.0)
    before = method.init(two[0])
    states = before, method.aggregate(before, about)
    return all(
        sum(isinstance(leaf, Tensor) for leaf in tree_leaves(state)) <= 1 for state in states
    )
