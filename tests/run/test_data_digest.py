"""Digests of data: of any strides, and of arrays that are too large to be read in full."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from favano.run.data_digest import data_digest

ROWS = torch.arange(12.0).view(6, 2)
CONJUGATE = torch.complex(ROWS, ROWS).conj()
LAYOUTS: dict[str, tuple[Tensor, Tensor]] = {
    "a stride of 0 in a dimension of one": (
        torch.from_numpy(np.arange(6.0)[:, None]),
        torch.arange(6.0, dtype=torch.float64).view(6, 1),
    ),
    "a single row": (torch.from_numpy(np.arange(6.0)[:, None])[:1], torch.zeros(1, 1).double()),
    "expanded": (torch.ones(1, 1).expand(6, 2), torch.ones(6, 2)),
    "transposed": (ROWS.T, ROWS.T.clone(memory_format=torch.contiguous_format)),
    "conjugate": (CONJUGATE, CONJUGATE.resolve_conj()),
    "bfloat16": (ROWS.bfloat16()[:, :1], ROWS.bfloat16()[:, :1].clone()),
    "no rows": (ROWS[:0], torch.empty(0, 2)),
}


@pytest.mark.parametrize(("given", "plain"), LAYOUTS.values(), ids=LAYOUTS)
def test_a_digest_is_of_the_numbers_whatever_their_strides(given: Tensor, plain: Tensor) -> None:
    assert data_digest([given], []) == data_digest([plain], [])
    if given.numel():
        assert data_digest([given + 1], []) != data_digest([plain], [])


def test_first_last_and_spread_rows_of_a_large_array_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("favano.run.data_digest._PART", 8)  # bytes: two rows
    rows = np.arange(1000, dtype=np.int32)
    digest = data_digest([rows], [])

    def is_seen(changed: int) -> bool:
        return data_digest([np.where(rows == changed, -1, rows)], []) != digest

    seen = [row for row in range(1000) if is_seen(row)]
    assert len(seen) == 2 * 64
    assert (seen[0], seen[-1]) == (0, 999)
    assert np.diff(seen).max() < 1000 / 63
    assert data_digest([rows[:-1]], []) != digest
