"""Constants and settings that cannot be are refused by name."""

from __future__ import annotations

import pytest

from favano.errors import BadInput
from favano.theory import Problem, Setting

GOOD = {"clients": 10, "selected": 3, "local_steps": 5, "mean_a": 0.5, "b": 1.5}


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("smoothness", 0.0, "need a positive number"),
        ("smoothness", float("inf"), "need a finite number"),
        ("noise", -0.1, "need a number >= 0"),
        ("dissimilarity", -1.0, "need a number >= 0"),
        ("growth", 0.9, "need a number >= 1"),
        ("gap", float("nan"), "need a number >= 0"),
    ],
)
def test_problems(name: str, value: float, rule: str) -> None:
    with pytest.raises(BadInput, match=f"{name}={value}: {rule}"):
        Problem(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [("clients", 0), ("selected", 11), ("selected", 0), ("local_steps", 0), ("mean_a", -1.0),
     ("mean_a", float("nan")), ("b", 0.0), ("b", float("inf"))],
)  # fmt: skip
def test_settings(name: str, value: float) -> None:
    Setting(**GOOD)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match=f"{name}={value}: need"):
        Setting(**{**GOOD, name: value})  # type: ignore[arg-type]
