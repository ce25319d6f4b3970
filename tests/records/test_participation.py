"""Who trained the model: there and back, and damage is named."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from favano.records import Participation, participation_from_json, participation_to_json
from favano.records.participation import (
    AvailabilityChart,
    JobChart,
    Listed,
    Speed,
    Staleness,
)

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
CHARTS = replace(
    ONE,
    availability=AvailabilityChart(
        horizon=30.0, share=(1.0, 0.5, 0.5), mean=2 / 3, median=0.8, client=(2, 0),
        available=(1.0, 0.25), digits=("999", "940"),
    ),
    jobs=JobChart(
        begin=0.0, end=20.0, horizon=30.0, at_work=2, client=(1, 0), speed=(0, 1), row=(0, 1, 0),
        start=(0.0, 0.0, 8.0), finish=(7.5, 20.0, 20.0), steps=(3, 1, 2), outcome=(0, 3, 2),
        used_by=(1, 0, 0), server_steps=(8.0,), server_steps_made=1,
    ),
)  # fmt: skip


def test_there_and_back() -> None:
    assert participation_from_json(participation_to_json(ONE)) == ONE
    assert participation_from_json(participation_to_json(CHARTS)) == CHARTS


def test_files_of_earlier_versions_have_no_charts() -> None:
    document = json.loads(participation_to_json(ONE))
    assert not {"availability", "jobs"} & document.keys()
    assert participation_from_json(json.dumps(document)).jobs is None


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
        ("availability", "digits", ["999"], "available clients differ in length"),
        ("availability", "digits", ["999", "94"], "not a digit for every part"),
        ("availability", "digits", ["999", "9x0"], "not a digit for every part"),
        ("jobs", "steps", [1], "columns of jobs differ in length"),
        ("jobs", "row", [0, 2, 0], "a job has an unknown client"),
        ("jobs", "outcome", [0, 4, 2], "a job has an unknown outcome"),
        ("jobs", "speed", [0, 2], "an unknown speed"),
    ],
)
def test_damage_is_named(place: str, key: str, value: object, complaint: str) -> None:
    document = json.loads(participation_to_json(CHARTS))
    document[place][key] = value
    with pytest.raises(ValueError, match=complaint):
        participation_from_json(json.dumps(document))
