"""Rows of models: copies, rows used again, blocks that grow, and no harm if memory is short."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from favano.engine import model_rows
from favano.engine.model_rows import ModelRows


def test_rows_are_kept_and_given_back() -> None:
    rows = ModelRows(torch.zeros(3))
    rows.reserve(2)
    models = torch.randn(7, 3)
    kept = rows.store(models)
    assert rows.used == 7
    assert torch.equal(rows.take(kept[::-1].copy()), models.flip(0))
    rows.release(kept[:4])
    again = rows.store(models[:2] + 1)
    assert set(again) <= set(kept[:4])
    assert torch.equal(rows.take(kept[4:]), models[4:])
    assert rows.used == 5


def test_copies_are_kept() -> None:
    rows = ModelRows(torch.zeros(3))
    vector = torch.tensor([1.0, 2.0, 3.0])
    row = rows.row(int(rows.store(vector[None])[0]))
    vector += 1
    assert row.tolist() == [1.0, 2.0, 3.0]


def test_single_rows_are_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_rows, "_FIRST_ROWS", 2)
    rows = ModelRows(torch.zeros(2))
    alive: list[int] = []
    for number in range(100):
        alive += rows.store(torch.full((1, 2), float(number))).tolist()
        if len(alive) > 5:
            rows.release(np.array([alive.pop(0)]))
        values = [rows.row(row)[0].item() for row in alive]
        assert values == list(range(number - len(alive) + 1, number + 1))
        assert rows.used == len(alive)
    assert rows.total == 8  # 2, then 2, then 4: never more than twice what was needed


def test_blocks_are_bounded_unless_more_is_needed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_rows, "_MOST_BYTES", 3 * 4 * 10)
    rows = ModelRows(torch.zeros(10))
    for _ in range(7):
        rows.store(torch.zeros(1, 10))
    assert rows.total == 9
    rows.store(torch.zeros(20, 10))
    assert rows.total == 27


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("first", [1, 2, 5, 64])
def test_blocks_make_no_difference(
    first: int, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of one block and of several, in any order and shape."""
    monkeypatch.setattr(model_rows, "_FIRST_ROWS", first)
    draw = np.random.default_rng(0)
    rows, models = ModelRows(torch.zeros(3, device=device)), dict[int, torch.Tensor]()
    for _ in range(30):
        new = torch.randn(int(draw.integers(0, 7)), 3, device=device)
        models.update(zip(rows.store(new).tolist(), new, strict=True))
        gone = draw.permutation(list(models))[: int(draw.integers(0, 5))]
        rows.release(gone.astype(np.int64))
        for row in gone.tolist():
            del models[row]
        if models:
            asked = draw.choice(list(models), size=(2, 4))
            expected = torch.stack([models[row] for row in asked.ravel().tolist()])
            assert torch.equal(rows.take(asked), expected.view(2, 4, 3))
        assert all(torch.equal(rows.row(row), model) for row, model in models.items())
        assert rows.used == len(models)


def test_a_row_never_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_rows, "_FIRST_ROWS", 1)
    rows = ModelRows(torch.zeros(3))
    number = int(rows.store(torch.ones(1, 3))[0])
    view = rows.row(number)
    rows.store(torch.zeros(50, 3))
    assert rows.row(number) is view
    assert view.tolist() == [1.0, 1.0, 1.0]


def test_rows_that_cannot_grow_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = ModelRows(torch.zeros(3))
    rows.reserve(8)
    kept = rows.store(torch.ones(7, 3))

    def full(missing: int) -> None:
        raise torch.cuda.OutOfMemoryError

    with monkeypatch.context() as patch:
        patch.setattr(rows, "_grow", full)
        for act in (lambda: rows.reserve(2), lambda: rows.store(torch.ones(2, 3))):
            with pytest.raises(torch.cuda.OutOfMemoryError):
                act()
    assert rows.used == 7
    assert len(set(rows.store(torch.zeros(5, 3))) | set(kept)) == 12
    assert torch.equal(rows.take(kept), torch.ones(7, 3))


def test_a_row_is_free_when_its_last_reference_is_gone() -> None:
    """Rows may be named more than once, and in any order."""
    rows = ModelRows(torch.zeros(3))
    a, b, c = rows.store(torch.randn(3, 3)).tolist()
    rows.retain(np.array([a, b, a]))
    rows.release(np.array([b, a, c]))
    assert rows.used == 2
    rows.release(np.array([a, b, a]))
    assert rows.used == 0
    again = rows.store(torch.randn(rows.total, 3))
    assert sorted(again.tolist()) == list(range(rows.total))  # none is free twice
