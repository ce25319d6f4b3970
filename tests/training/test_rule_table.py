"""Rules of several tasks in one table: which are computed together, and where vectors lie."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from favano.methods.asofed import AsoFed
from favano.training import LocalRule
from favano.training.optimisers import Numbers, Optimiser
from favano.training.rule_table import RuleTable

ADAM = Optimiser("adam", momentum=0.9, beta2=0.99, epsilon=1e-3)
HEAVY = Optimiser(momentum=0.5, clip=2.0)


def test_without_refinements_there_is_nothing_to_hold() -> None:
    table = RuleTable([LocalRule(), LocalRule(0.5, corrected=True)])
    assert not table
    assert table.vectors == 0
    assert table.numbers.shape == (0, 2)
    assert table.number.tolist() == [0, 0]


def test_rules_that_differ_only_in_numbers_are_one_kind() -> None:
    """A search over numbers costs as much as one of them."""
    rules = [ADAM, replace(ADAM, beta2=0.5, clip=1.0), HEAVY, replace(HEAVY, momentum=0.1)]
    table = RuleTable([*(LocalRule(optimiser=optimiser) for optimiser in rules), LocalRule()])
    assert table.number.tolist() == [1, 1, 2, 2, 0]
    assert table.numbers[Numbers._fields.index("beta2")].tolist() == [0.99, 0.5, 0, 0, 0]
    assert table.numbers[Numbers._fields.index("clip")].tolist() == [np.inf, 1, 2, 2, np.inf]


def test_vectors_that_begin_anew_lie_behind_all_that_are_kept() -> None:
    step = AsoFed().local_step
    rules = [
        LocalRule(memory=2, step=step, optimiser=replace(HEAVY, state="kept")),
        LocalRule(memory=2, step=step, optimiser=ADAM),
        LocalRule(optimiser=replace(ADAM, state="kept")),
    ]
    table = RuleTable(rules)
    assert (table.kept, table.fresh, table.vectors) == (3, 2, 5)
    assert [kind.places for kind in table._kinds] == [(0, 1, 2), (0, 1, 3, 4), (0, 1)]


def test_a_lane_of_another_kind_is_left_alone() -> None:
    """Lane 0 has momentum, lane 1 none: its gradient is the direction, its vector stays."""
    table = RuleTable([LocalRule(optimiser=HEAVY), LocalRule()])
    gradient = torch.tensor([[1.0, 0.0], [3.0, 4.0]])
    memory = [torch.ones(2, 2)]
    numbers = torch.from_numpy(table.numbers)[:, :, None]
    columns = torch.tensor([[1], [0]]), torch.ones(2, 1), numbers
    moves = table.refined(gradient, gradient, memory, *columns)
    assert moves.tolist() == [[1.5, 0.5], [3.0, 4.0]]
    assert memory[0].tolist() == [[1.5, 0.5], [1.0, 1.0]]


def shift(gradient: Tensor, memory: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Remembers the last two gradients."""
    return gradient + memory[1], (gradient, memory[0])


def test_a_method_may_hand_its_vectors_on() -> None:
    """The second new vector is the first old one, not what it has become."""
    table = RuleTable([LocalRule(memory=2, step=shift)])
    memory = [torch.full((1, 2), 5.0), torch.full((1, 2), 7.0)]
    columns = torch.ones(1, 1), torch.ones(1, 1), torch.from_numpy(table.numbers)[:, :, None]
    moves = table.refined(torch.ones(1, 2), torch.ones(1, 2), memory, *columns)
    assert moves.tolist() == [[8.0, 8.0]]
    assert [vector.tolist() for vector in memory] == [[[1.0, 1.0]], [[5.0, 5.0]]]
