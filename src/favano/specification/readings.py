"""Named readings of the paper: sets of keys where it can be read in more than one way.

The page "Readings" (docs/reference/readings.md) says what each of them changes, and why the default
is another one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from favano.errors import BadInput, require
from favano.methods.clock import ServerClock
from favano.options import did_you_mean, options_of

READING: Final = "reading"
READINGS: Final[Mapping[str, Mapping[str, object]]] = {
    "literal": {"step_count": "literal"},
    "literal-zero": {"step_count": "literal-zero"},
    "resumed-steps": {"interruption": "resume"},
    "kept-steps": {"interruption": "keep"},
    "from-zero": {"starts_at_zero": True},
    "idle": {"idle_in_interaction": True},
    "strict-ties": {"strict_ties": True},
    "overrun": {"overrun": True},
    "one-draw-rounds": {"round_time": "one-draw"},
    "mean-rounds": {"round_time": "mean"},
    "no-late-round": {"drop_last": True},
    "slow-first": {"speed_order": "slow-first"},
    "ceil-slow": {"speed_rounding": "ceil-slow"},
    "simulator": {
        "interruption": "keep",
        "strict_ties": True,
        "starts_at_zero": True,
        "speed_order": "slow-first",
        "speed_rounding": "ceil-slow",
    },
}
KEYS: Final = tuple(dict.fromkeys(key for reading in READINGS.values() for key in reading))


def with_readings(
    keys: Mapping[str, object], read: Callable[[], Collection[str]]
) -> dict[str, object]:
    """The keys of a run, or of several, with those of the readings that they name.

    Several readings are a list, or words with commas between them. What contradicts another key or
    reading is refused. A key of the clock that none of the methods depends on (`read` says which)
    is left out of a reading of several keys; a reading without effect is refused.

    >>> with_readings({"clients": 9, "reading": "slow-first"}, set)
    {'clients': 9, 'speed_order': 'slow-first'}
    """
    rest = {key: value for key, value in keys.items() if key != READING}
    if (given := keys.get(READING)) is None:
        return rest
    added: dict[str, object] = {}
    for name in _names(given):
        rule = f"unknown; {did_you_mean(name, READINGS)}"
        require(name in READINGS, READING, name, rule)
        known, of_clock = read(), options_of(ServerClock)
        used = {key: READINGS[name][key] for key in READINGS[name]
                if key not in of_clock or key in known}  # fmt: skip
        rule = f"sets {', '.join(READINGS[name])}, which has no effect on these methods; remove it"
        require(bool(used), READING, name, rule)
        for key, value in used.items():
            other = rest.get(key, added.get(key, value))
            rule = f"sets {key}={value}, but {key}={other} is given; remove one of them"
            require(str(other) == str(value), READING, name, rule)
        added |= used
    return {**rest, **added}


def _names(given: object) -> list[str]:
    """The names of readings, as a list or between commas."""
    if isinstance(given, str):
        return [name.strip() for name in given.split(",")]
    if isinstance(given, Sequence) and all(isinstance(name, str) for name in given):
        return list(given)
    raise BadInput(READING, given, "need a name, or a list of names")
