"""Rows of a bank: kept, given back, and unharmed where there is no memory for more."""

from __future__ import annotations

import pytest
import torch

from favano.engine.bank import Bank


def test_rows_are_kept_and_given_back() -> None:
    bank = Bank(torch.zeros(3), rows=2)
    models = torch.randn(7, 3)
    rows = bank.keep(models)
    assert bank.used == 7
    assert torch.equal(bank.take(rows[::-1].copy()), models.flip(0))
    bank.give_back(rows[:4])
    again = bank.keep(models[:2] + 1)
    assert set(again) <= set(rows[:4])
    assert torch.equal(bank.take(rows[4:]), models[4:])
    assert bank.used == 5


def test_a_bank_that_cannot_grow_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    bank = Bank(torch.zeros(3), rows=4)
    rows = bank.keep(torch.ones(3, 3))

    def full() -> None:
        raise torch.cuda.OutOfMemoryError

    with monkeypatch.context() as patch:
        patch.setattr(bank, "_grow", full)
        for act in (lambda: bank.reserve(2), lambda: bank.keep(torch.ones(2, 3))):
            with pytest.raises(torch.cuda.OutOfMemoryError):
                act()
    assert bank.used == 3
    assert len(set(bank.keep(torch.zeros(5, 3))) | set(rows)) == 8
    assert torch.equal(bank.take(rows), torch.ones(3, 3))
