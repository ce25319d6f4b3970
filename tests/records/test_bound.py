from __future__ import annotations

from math import inf

from favano.records import BoundRow, bounds_from_csv, bounds_to_csv


def test_there_and_back() -> None:
    row = BoundRow(0, 7.0, 1, 0.5, 0.25, 1e-9, inf, inf, inf, 3.0, 0.5, 0.1, 2.0, 1.0, 0.0, 2.3)
    text = bounds_to_csv([row])
    assert text.startswith("seed,time,server_step,gradient,mean_gradient,potential")
    assert bounds_from_csv(text) == [row]
