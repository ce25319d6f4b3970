"""Links of clients: bits per second each way, and latency. Messages of a run make times of them."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from favano.errors import BadInput, require
from favano.timing.appfl import read_profiles
from favano.timing.devices import draw_devices
from favano.timing.fedscale import read_capacities
from favano.types import Floats

_MEGABIT = 1e6
_PRESETS: Final = {"home": "20:100:0.02", "mobile": "10:40:0.05"}  # our choice
_RULE = "need none, home, mobile, UP:DOWN[:LATENCY] (Mbit/s, s), appfl:FILE or fedscale:FILE"


class LinkRates(NamedTuple):
    """Of each client, (n,)."""

    up: Floats  # bits per second, from the client
    down: Floats
    latency: Floats  # seconds


def parse_link(text: str, clients: int, seed: int) -> LinkRates | None:
    """The links named on the command line, of clients 0..n-1; None: messages take no time.

    >>> parse_link("8:16:0.1", clients=1, seed=0)
    LinkRates(up=array([8000000.]), down=array([16000000.]), latency=array([0.1]))
    """
    name, _, argument = text.partition(":")
    if text == "none":
        return None
    if name == "appfl" and argument:
        rate = read_profiles(Path(argument), "link").rate
        rule = f"holds {len(rate)} clients, need as many as there are ({clients})"
        require(len(rate) >= clients, "link", text, rule)
        return LinkRates(rate[:clients], rate[:clients], np.zeros(clients))
    if name == "fedscale" and argument:
        rate = read_capacities(Path(argument), "link").rate
        mine = rate[draw_devices(seed, clients, len(rate))]
        return LinkRates(mine, mine, np.zeros(clients))
    numbers = _numbers(_PRESETS.get(text, text), "link", _RULE)
    good = len(numbers) in (2, 3) and min(numbers[:2]) > 0 and min(numbers) >= 0
    require(good, "link", text, _RULE)
    up, down, latency = [*numbers, 0.0][:3]
    return LinkRates(
        *(np.full(clients, value) for value in (up * _MEGABIT, down * _MEGABIT, latency))
    )


def parse_server_link(text: str) -> tuple[float, float]:
    """Bits per second from all clients and to them, of `UP:DOWN` in Mbit/s."""
    rule = "need UP:DOWN, two positive rates in Mbit/s"
    numbers = _numbers(text, "server_link", rule)
    require(len(numbers) == 2 and min(numbers) > 0, "server_link", text, rule)
    up, down = numbers
    return up * _MEGABIT, down * _MEGABIT


def _numbers(text: str, name: str, rule: str) -> list[float]:
    try:
        numbers = [float(part) for part in text.split(":")]
    except ValueError:
        raise BadInput(name, text, rule) from None
    require(bool(np.isfinite(numbers).all()), name, text, rule)
    return numbers
