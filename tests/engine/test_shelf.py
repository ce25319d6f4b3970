"""The shelf: copies, rows used again, room that grows by need."""

from __future__ import annotations

import pytest
import torch

from favano.engine import shelf
from favano.engine.shelf import Shelf


def test_keeps_copies() -> None:
    place = Shelf(torch.zeros(3))
    vector = torch.tensor([1.0, 2.0, 3.0])
    kept = place.keep(vector)
    vector += 1
    assert kept.tolist() == [1.0, 2.0, 3.0]


def test_rows_are_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelf, "_FIRST_ROWS", 2)
    place = Shelf(torch.zeros(2))
    alive: list[torch.Tensor] = []
    for number in range(100):
        alive.append(place.keep(torch.full((2,), float(number))))
        if len(alive) > 5:
            place.give_back(alive.pop(0))
        assert [row[0].item() for row in alive] == list(range(number - len(alive) + 1, number + 1))
    assert place.rows == 8  # 2, then 2, then 4: never more than twice what was needed


def test_blocks_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelf, "_MOST_BYTES", 3 * 4 * 10)
    place = Shelf(torch.zeros(10))
    for _ in range(7):
        place.keep(torch.zeros(10))
    assert place.rows == 9
