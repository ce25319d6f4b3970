"""The two files of FedScale: how fast devices are, and when they are available.

`client_device_capacity` is a pickle of `{id: {"computation": ms per sample, "communication":
kbit/s}}`; inference of a sample takes `computation`, and FedScale counts a training step as three
times that for each sample of its batch. `client_behave_trace` is a pickle of `{id: {"active":
[...], "inactive": [...], "finish_time": s, ...}}`: available from each `active` to the `inactive`
of the same place, again and again after `finish_time`.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from favano.errors import require
from favano.timing.availability import Recorded
from favano.timing.number_pickle import read_numbers
from favano.types import Floats

TRAINING = 3.0  # a training step of a sample over its inference
_KILOBIT = 1000.0


class Capacities(NamedTuple):
    """Of all devices of a file, in its order."""

    inference: Floats  # seconds per sample
    rate: Floats  # bits per second


def read_capacities(path: Path, name: str) -> Capacities:
    """The devices of a file, which the key of this name has as `fedscale:FILE`."""
    value = f"fedscale:{path}"
    devices = _entries(path, name, value)
    parts = ("computation", "communication")
    both = np.array(
        [[_number(device.get(part)) for part in parts] for device in devices], dtype=np.float64
    )
    bad = np.flatnonzero(~((both > 0) & (both < np.inf)).all(axis=1))
    rule = "needs a positive computation (ms per sample) and communication (kbit/s)"
    require(not len(bad), name, value, f"device {bad[:1]} of {len(devices)} {rule}")
    return Capacities(both[:, 0] / 1000.0, both[:, 1] * _KILOBIT)


def read_behaviour(path: Path, name: str) -> Recorded:
    """When devices are available, which the key of this name has as `fedscale:FILE`."""
    value = f"fedscale:{path}"
    devices = _entries(path, name, value)
    rows, lengths = [], []
    for number, device in enumerate(devices):
        active, inactive = (_times(device.get(part)) for part in ("active", "inactive"))
        length = _number(device.get("finish_time"))
        good = (
            active is not None
            and inactive is not None
            and len(active) == len(inactive)
            and bool((active <= inactive).all())
            and 0 < length < np.inf
        )
        rule = "needs a positive finish_time, and an inactive (later) for each time in active"
        require(good, name, value, f"device {number} of {len(devices)} {rule}")
        assert active is not None
        assert inactive is not None
        order = np.argsort(active, kind="stable")
        ends = np.maximum.accumulate(inactive[order])  # an interval inside another ends with it
        rows.append(np.minimum(np.stack([active[order], ends], axis=1), length))
        lengths.append(length)
    return Recorded(rows, np.array(lengths))


def _entries(path: Path, name: str, value: str) -> list[dict[object, object]]:
    held = read_numbers(path, name, value)
    good = isinstance(held, dict) and bool(held)
    good = good and all(isinstance(entry, dict) for entry in held.values())  # type: ignore[attr-defined]
    require(good, name, value, "need a dictionary of devices, each with a dictionary of its own")
    return list(held.values())  # type: ignore[attr-defined]


def _number(given: object) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float):
        return np.nan
    return float(given) if abs(given) < 1e300 else np.nan


def _times(given: object) -> Floats | None:
    """Finite times from 0 on; None: they are something else."""
    if not isinstance(given, list | tuple):
        return None
    times = np.array([_number(time) for time in given], dtype=np.float64)
    return times if bool((times >= 0).all()) else None
