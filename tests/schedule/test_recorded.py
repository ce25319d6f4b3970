"""Schedules that must not change, of all policies and options, as 0.2 planned them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from favano.policies import Buffered, Polling, Rounds, Windowed
from favano.schedule import Schedule, plan
from favano.schedule.schedule import COLUMNS
from favano.timing import ClientSpeeds, Trace, client_speeds, parse_law, traced_fleet

CASES = json.loads((Path(__file__).parent / "recorded.json").read_text())
Case = dict[str, Any]  # as JSON has it
KINDS = {kind.__name__: kind for kind in (Polling, Rounds, Buffered, Windowed)}


def digest(schedule: Schedule, *, rounded: bool = False) -> str:
    """Of all arrays of a schedule; NumPy's cosine differs between processors in its last bits."""
    content = hashlib.sha256()
    for name in COLUMNS:
        value = np.asarray(getattr(schedule, name))
        if rounded and value.dtype.kind == "f":
            value = np.array([float(f"{time:.9g}") for time in value.ravel().tolist()])
        content.update(f"{name} {value.dtype} {value.shape} ".encode() + value.tobytes())
    return content.hexdigest()[:16]


def fleet_of(case: Case) -> ClientSpeeds:
    means = np.array(case["means"], dtype=np.float64)
    if case["law"] == "trace":
        return traced_fleet(Trace(tuple(np.array([mean, 1.5, 2 * mean]) for mean in means)))
    return client_speeds(means, parse_law(str(case["law"])))


def planned(case: Case) -> Schedule:
    """The plan of one case."""
    policy = KINDS[str(case["policy"])](**case["options"])
    return plan(policy, fleet_of(case), horizon=case["horizon"], seed=case["seed"])


def outcome(case: Case) -> str:
    return digest(planned(case), rounded=str(case["law"]).startswith("lognormal"))


@pytest.mark.parametrize("policy", KINDS)
def test_schedules_are_as_recorded(policy: str) -> None:
    cases = [case for case in CASES if case["policy"] == policy]
    assert len(cases) > 50
    changed = [case for case in cases if outcome(case) != case["digest"]]
    assert not changed, f"{len(changed)} of {len(cases)}, such as {changed[0]}"
