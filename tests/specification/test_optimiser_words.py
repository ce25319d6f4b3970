"""Optimisers in words."""

from __future__ import annotations

import pytest

from favano.specification.optimiser_words import describe_optimiser
from favano.specification.spec import make_spec


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({}, None),
        ({"momentum": 0.0}, None),
        ({"optimiser": "adam"}, "Adam"),
        ({"optimiser": "adamw"}, "AdamW, weight decay 0.01"),
        ({"momentum": 0.9, "nesterov": True}, "SGD, momentum 0.9 (Nesterov)"),
        ({"momentum": 0.9, "optimiser_state": "kept"}, "SGD, momentum 0.9, state kept by clients"),
        ({"warm_up": 5.0}, "SGD, warm-up 5"),
        ({"robust": "median"}, "SGD, on the server median"),
    ],
)
def test_words(keys: dict[str, object], words: str | None) -> None:
    assert describe_optimiser(make_spec(keys)) == words
