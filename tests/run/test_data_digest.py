"""Digests of data that are too large to be read in full."""

from __future__ import annotations

import numpy as np
import pytest

from favano.run.data_digest import data_digest


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
