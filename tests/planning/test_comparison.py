"""Comparisons: shared keys, keys of one method, and what is refused."""

from __future__ import annotations

import pytest

from favano.errors import BadInput
from favano.planning.comparison import comparison


def test_files_and_flags() -> None:
    values = {
        "clients": 20,
        "algorithms": ["favano", "quafl"],
        "set": {"quafl": {"rate_scale": "none"}},
    }
    specs = comparison(values, None, ["quafl.dampening=true"])
    assert [spec.algorithm for spec in specs] == ["favano", "quafl"]
    assert [spec.rate_scale for spec in specs] == ["none", "none"]
    assert [spec.dampening for spec in specs] == [False, True]
    assert [spec.algorithm for spec in comparison(values, "quafl", [])] == ["quafl"]
    assert len(comparison({}, None, [])) == 4


@pytest.mark.parametrize(
    ("values", "settings", "message"),
    [
        ({"set": 3}, [], r"set=3: need a table a method, as \[set.fedbuff\]"),
        ({}, ["fedbuff.nonsense=3"], "nonsense=3: unknown key"),
        ({}, ["fedbuff.model=resnet20"], "set=model: must be the same for all methods"),
        ({"algorithm": "favano"}, ["x=1"], "set=x=1: need ALGORITHM.KEY=VALUE"),
        ({"algorithms": ["favano", "sgd"]}, [], "algorithm=sgd: need one of favano"),
    ],
)
def test_refused(values: dict[str, object], settings: list[str], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        comparison(values, None, settings)
