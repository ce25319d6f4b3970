"""Laws of availability by their names, as command lines and files have them."""

from __future__ import annotations

from importlib.resources import as_file, files
from pathlib import Path

from favano.errors import BadInput, require
from favano.timing.availability import (
    DAY,
    AvailabilityLaw,
    Daily,
    TwoState,
    read_availability,
)
from favano.timing.fedscale import read_behaviour
from favano.timing.flame import read_states

_PHONES_DAYS = 6  # of the recording in this package
_RULE = (
    "need always, phones, daily:SHARE[:ZONES[:DAY]], two-state:MEAN_THERE:MEAN_AWAY, "
    "trace:FILE[:LENGTH], flame:FILE[:NAME] or fedscale:FILE"
)


def parse_availability(text: str) -> AvailabilityLaw | None:
    """The law named on the command line; None: clients are always there.

    >>> parse_availability("daily:0.7:4")
    Daily(share=0.7, zones=4, day=86400.0)
    """
    name, _, argument = text.partition(":")
    match name:
        case "always" | "phones" if argument:
            raise BadInput("availability", text, _RULE)
        case "always":
            return None
        case "phones":
            with as_file(files("favano.timing") / "availability.csv") as path:
                return read_availability(path, _PHONES_DAYS * DAY)
        case "trace" | "flame" | "fedscale" if argument:
            return _recorded(name, argument)
        case "daily" | "two-state":
            return _drawn(text, name, [_number(part) for part in argument.split(":")])
    raise BadInput("availability", text, _RULE)


def availability_file(text: str) -> str | None:
    """The file that a law is read from.

    >>> availability_file("trace:phones.csv:6"), availability_file("daily:0.5")
    ('phones.csv', None)
    """
    name, _, argument = text.partition(":")
    if name not in ("trace", "flame", "fedscale"):
        return None
    return argument if name == "fedscale" else _file_and_rest(name, argument)[0]


def _recorded(name: str, argument: str) -> AvailabilityLaw:
    if name == "fedscale":
        return read_behaviour(Path(argument), "availability")
    file, rest = _file_and_rest(name, argument)
    if name == "flame":
        return read_states(Path(file), rest) if rest else read_states(Path(file))
    length = _number(rest) if rest else None
    rule = "need a positive LENGTH"
    require(length is None or length > 0, "availability", f"{name}:{argument}", rule)
    return (
        read_availability(Path(file)) if length is None else read_availability(Path(file), length)
    )


def _file_and_rest(name: str, argument: str) -> tuple[str, str]:
    """A file, and the length or the name after it; either may be left out."""
    file, _, rest = argument.rpartition(":")
    apart = _number(rest) is not None if name == "trace" else "." not in rest and "/" not in rest
    return (file, rest) if file and apart else (argument, "")


def _drawn(text: str, name: str, numbers: list[float | None]) -> AvailabilityLaw:
    values = [value for value in numbers if value is not None]
    if len(values) == len(numbers):
        if name == "two-state" and len(values) == 2:
            return TwoState(*values)
        if name == "daily" and 1 <= len(values) <= 3:
            share, zones, day = [*values, *(1.0, DAY)[len(values) - 1 :]]
            whole = zones.is_integer() and zones < 1 << 31
            require(whole, "availability", text, "need a whole number of time zones")
            return Daily(share, int(zones), day)
    raise BadInput("availability", text, _RULE)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
