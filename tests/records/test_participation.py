"""Who trained the model: there and back, and damage is named."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from favano.records import Participation, participation_from_json, participation_to_json
from favano.records.participation import Listed, Speed, Staleness

LISTED = Listed(
    client=(0, 1, 2),
    speed=(1, 0, 1),
    contacts=(1, 3, 1),
    steps=(1, 9, 2),
    staleness=(2.0, 0.5, 1.0),
    weight=(0.25, 0.5, 0.25),
)
ONE = Participation(
    seed=0,
    clients=3,
    speeds=(Speed("fast", 1, 3, 9, 0.5), Speed("slow", 2, 2, 3, 0.5)),
    listed=LISTED,
    staleness=Staleness(width=1, counts=((2, 1, 0), (0, 1, 1)), mean=0.9, median=1.0, most=2),
)


def test_there_and_back() -> None:
    assert participation_from_json(participation_to_json(ONE)) == ONE


def test_weights_may_be_unknown() -> None:
    unknown = replace(ONE, listed=replace(LISTED, weight=(0.25, math.nan, 0.25)))
    assert '"weight": [0.25, null, 0.25]' in participation_to_json(unknown)
    assert math.isnan(participation_from_json(participation_to_json(unknown)).listed.weight[1])


@pytest.mark.parametrize(
    ("place", "key", "value", "complaint"),
    [
        ("listed", "speed", [1, 0, 7], "an unknown speed"),
        ("listed", "steps", [1], "differ in length"),
        ("staleness", "width", None, "staleness.width"),
    ],
)
def test_damage_is_named(place: str, key: str, value: object, complaint: str) -> None:
    document = json.loads(participation_to_json(ONE))
    document[place][key] = value
    with pytest.raises(ValueError, match=complaint):
        participation_from_json(json.dumps(document))
