"""Profiles of clients as APPFL's simulator reads them: how slow each is, and its bandwidth.

A JSON file `{"0": {"delay": 1.8, "bandwidth": 95.0}, ...}`: clients by their numbers; a step takes
`delay` (in APPFL's code `compute_factor`) times as long as on the device that it was measured on; a
link has `bandwidth` times 2^20 bits per second, each way (0: messages take no time).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

from favano.errors import BadInput, require
from favano.file_sizes import read_limited
from favano.types import Floats

_MEGABIT = 1 << 20


class Profiles(NamedTuple):
    """Of all clients of a file, by number."""

    factor: Floats
    rate: Floats  # bits per second, infinite where messages take no time


def read_profiles(path: Path, name: str) -> Profiles:
    """The profiles of a file, which the key of this name has as `appfl:FILE`."""
    value = f"appfl:{path}"
    require(path.is_file(), name, value, "no such file")
    try:
        table = json.loads(read_limited(path, name))
    except BadInput:
        raise
    except (OSError, ValueError, RecursionError):
        raise BadInput(name, value, "is not a file of JSON that can be read") from None
    rule = 'need clients by number, as {"0": {"delay": 1.8, "bandwidth": 95.0}, "1": ...}'
    require(isinstance(table, dict) and bool(table), name, value, rule)
    factors, rates = [], []
    for client in range(len(table)):
        profile = table.get(str(client))
        rule = f"client {client} of {len(table)} is not there; they are numbered 0, 1, ..."
        require(isinstance(profile, dict), name, value, rule)
        factor = profile.get("delay", profile.get("compute_factor"))
        factors.append(_number(factor, "delay > 0", client, name, value, least=1e-300))
        bandwidth = _number(profile.get("bandwidth"), "bandwidth >= 0", client, name, value)
        rates.append(bandwidth * _MEGABIT or np.inf)
    return Profiles(np.array(factors), np.array(rates))


def _number(
    given: object, what: str, client: int, name: str, value: str, least: float = 0.0
) -> float:
    number = given if isinstance(given, int | float) and not isinstance(given, bool) else np.nan
    require(least <= number < 1e300, name, value, f"client {client} needs a {what}")
    return float(number)
