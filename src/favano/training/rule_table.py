"""The local rules of several tasks, for lanes that train jobs of all of them at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from favano.training.local_rule import LocalRule, Refinement
from favano.training.optimisers import Memory, Numbers
from favano.types import Floats, Stack

_UNUSED = Numbers(0.0, 0.0, 0.0, 0.0, 0.0, np.inf)  # values without an effect


class _Kind(NamedTuple):
    """A refinement, and the places of its vectors in the memory of a lane."""

    refinement: Refinement
    places: tuple[int, ...]


class RuleTable:
    """Refinements of gradients, lane by lane.

    The memory of a lane has the vectors that any client keeps, then those that begin anew in each
    job. Rules that differ only in numbers are computed together.
    """

    def __init__(self, rules: Sequence[LocalRule]) -> None:
        self.kept = max((rule.kept for rule in rules), default=0)
        self.fresh = max((rule.fresh for rule in rules), default=0)
        kinds = [self._kind(rule) for rule in rules]
        self._kinds = list(dict.fromkeys(kind for kind in kinds if kind is not None))
        self.number = np.array(  # of each task's kind: 0 if directions are corrected gradients
            [0 if kind is None else 1 + self._kinds.index(kind) for kind in kinds], dtype=np.int64
        )
        self._alone = len(self._kinds) == 1 and bool(self.number.all())
        given = [rule.optimiser.numbers for rule in rules]
        self._needed = [any(some[place] is not None for some in given) for place in (3, 4, 5)]
        # Of each task's optimiser, (fields, tasks); no fields if no task has one.
        fields = zip(zip(*given, strict=True), _UNUSED, strict=True) if self._kinds else ()
        rows = [[none if number is None else number for number in field] for field, none in fields]
        self.numbers: Floats = np.array(rows).reshape(-1, len(rules))

    def _kind(self, rule: LocalRule) -> _Kind | None:
        if (refinement := rule.refinement) is None:
            return None
        own, state = range(rule.memory), range(refinement.form.vectors)
        first = rule.memory if rule.optimiser.kept else self.kept
        return _Kind(refinement, (*own, *(first + place for place in state)))

    def __bool__(self) -> bool:
        """Whether any task refines its gradients."""
        return bool(self._kinds)

    @property
    def vectors(self) -> int:
        """Vectors in the memory of a lane."""
        return self.kept + self.fresh

    def refined(
        self,
        gradient: Stack,
        weights: Stack,
        memory: Sequence[Stack],
        number: Tensor,
        count: Tensor,
        numbers: Tensor,
    ) -> Stack:
        """The directions of k lanes; their memory is renewed in place.

        Args:
            gradient: (k, P), corrected.
            weights: (k, P), that decay.
            memory: `vectors` times (k, P).
            number: (k, 1) of each lane's kind.
            count: (k, 1) of each lane's step since its optimiser began with zeros, from 1 on.
            numbers: (fields, k, 1) of each lane's optimiser.
        """
        momentum, beta2, epsilon, *rest = numbers
        l2, decay, clip = (
            column if needed else None for column, needed in zip(rest, self._needed, strict=True)
        )
        columns, moves = Numbers(momentum, beta2, epsilon, l2, decay, clip), gradient
        for place, kind in enumerate(self._kinds, start=1):
            own: Memory = tuple(memory[vector] for vector in kind.places)
            given = tuple(tensor.clone() for tensor in own) if kind.refinement.step else own
            move, renewed = kind.refinement(gradient, weights, given, count, columns)
            here = number == place
            moves = move if self._alone else torch.where(here, move, moves)
            for old, new in zip(own, renewed, strict=True):
                old.copy_(new if self._alone else torch.where(here, new, old))
        return moves
