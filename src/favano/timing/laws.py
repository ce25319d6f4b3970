"""Laws of the duration D of a local step, given its mean m."""

from __future__ import annotations

from dataclasses import dataclass
from math import pi, sqrt
from pathlib import Path
from typing import Protocol

import numpy as np

from favano.errors import BadInput, require
from favano.file_sizes import read_given
from favano.rng import Stream, normal, uniform
from favano.types import Floats, Ints

_SHORTEST = 1e-12  # half-normal draws; 0 is none
_WIDEST = 5  # spread of a log-normal law; with more, nearly all durations are next to nothing


class StepLaw(Protocol):
    """A law of step durations; `client` is the client's stream, `index` the number of the draw."""

    def check(self, mean: Floats) -> None:
        """Refuse means that this law cannot have."""

    def draw(self, seed: int, client: Ints, index: Ints, mean: Floats) -> Floats:
        """Durations for each (client, index), broadcast."""


@dataclass(frozen=True)
class Geometric:
    """P(D = d) = lambda (1 - lambda)^(d-1) on {1, 2, ...}, lambda = 1/m; the paper's law.

    Drawn by inverse transform: ceil(log U / log(1 - 1/m)).
    """

    def check(self, mean: Floats) -> None:
        good = bool(np.isfinite(mean).all() and (mean >= 1).all())
        require(good, "step mean", mean.min(), "geometric steps need a finite mean >= 1")

    def draw(self, seed: int, client: Ints, index: Ints, mean: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            scale = -1.0 / np.log1p(-1.0 / mean)  # 0 where m = 1: every step lasts one unit
        drawn = -np.log(uniform(seed, Stream.DURATIONS, client, index))
        return np.asarray(np.maximum(1.0, np.ceil(drawn * scale)))


@dataclass(frozen=True)
class Exponential:
    """Exponential steps of mean m, drawn by inverse transform: -m log U."""

    def check(self, mean: Floats) -> None:
        _positive(mean)

    def draw(self, seed: int, client: Ints, index: Ints, mean: Floats) -> Floats:
        return np.asarray(-mean * np.log(uniform(seed, Stream.DURATIONS, client, index)))


@dataclass(frozen=True)
class Deterministic:
    """Every step lasts exactly m."""

    def check(self, mean: Floats) -> None:
        _positive(mean)

    def draw(self, seed: int, client: Ints, index: Ints, mean: Floats) -> Floats:
        shape = np.broadcast_shapes(np.shape(client), np.shape(index), np.shape(mean))
        return np.broadcast_to(mean, shape)


@dataclass(frozen=True)
class LogNormal:
    """log D ~ N(log m - spread^2/2, spread^2): mean m, heavy on the right."""

    spread: float = 1.0

    def __post_init__(self) -> None:
        good = 0 < self.spread <= _WIDEST
        require(good, "step_law spread", self.spread, f"need a positive number, {_WIDEST} at most")

    def check(self, mean: Floats) -> None:
        _positive(mean)

    def draw(self, seed: int, client: Ints, index: Ints, mean: Floats) -> Floats:
        location = np.log(mean) - self.spread**2 / 2
        drawn = normal(seed, Stream.DURATIONS, client, index)
        return np.asarray(np.exp(location + self.spread * drawn))


@dataclass(frozen=True)
class HalfNormal:
    """D = |N(0, sigma^2)| with sigma = m sqrt(pi / 2), so that its mean is m."""

    def check(self, mean: Floats) -> None:
        _positive(mean)

    def draw(self, seed: int, client: Ints, index: Ints, mean: Floats) -> Floats:
        drawn = np.abs(normal(seed, Stream.DURATIONS, client, index))
        return np.asarray(np.maximum(drawn, _SHORTEST) * (mean * sqrt(pi / 2)))


@dataclass(frozen=True)
class Trace:
    """Recorded durations, one row per client stream, each repeated without end."""

    rows: tuple[Floats, ...]

    def __post_init__(self) -> None:
        require(len(self.rows) > 0, "trace", "", "holds no client")
        for client, row in enumerate(self.rows):
            require(len(row) > 0, "trace", f"client {client}", "has no recorded step")
            good = bool(np.isfinite(row).all() and (row > 0).all())
            require(good, "trace", f"client {client}", "durations must be finite and positive")

    def means(self) -> Floats:
        """Mean recorded duration of each client."""
        return np.array([row.mean() for row in self.rows])

    def check(self, mean: Floats) -> None:
        require(len(mean) == len(self.rows), "trace", len(self.rows), f"need {len(mean)} clients")

    def draw(self, seed: int, client: Ints, index: Ints, mean: Floats) -> Floats:
        length = np.array([len(row) for row in self.rows])
        start = np.concatenate([[0], np.cumsum(length)[:-1]])
        place = start[client] + np.asarray(index) % length[client]
        return np.asarray(np.concatenate(self.rows)[place], dtype=np.float64)


def read_trace(path: Path) -> Trace:
    """A trace from a CSV file: the line `client,duration`, then one line per recorded step.

    Clients are numbered 0, 1, ... without a gap; a client's steps are in the order of its lines.
    """
    name = f"trace:{path}"
    header, *lines = read_given(path, "step_law", name, "utf-8-sig").splitlines() or [""]
    columns = [column.strip().lower() for column in header.lstrip("# ").split(",")]
    rule = f"need client,duration as the first line, found {header[:40]!r}"
    require(columns == ["client", "duration"], "step_law", name, rule)
    steps: dict[int, list[float]] = {}
    for number, line in enumerate(lines, start=2):
        if entry := line.partition("#")[0].strip():
            client, duration = _recorded(entry, f"line {number}", name)
            steps.setdefault(client, []).append(duration)
    require(bool(steps), "step_law", name, "holds no step below its first line")
    gap = next((client for client in range(len(steps)) if client not in steps), None)
    rule = f"client {gap} has no line; clients are numbered 0, 1, ... without a gap"
    require(gap is None, "step_law", name, rule)
    return Trace(tuple(np.array(steps[client]) for client in range(len(steps))))


def _recorded(entry: str, place: str, name: str) -> tuple[int, float]:
    """Client and duration of one line."""
    try:
        client, duration = (float(part) for part in entry.split(","))
    except ValueError:
        client = duration = np.nan
    good = client >= 0 and client.is_integer() and 0 < duration < np.inf
    rule = "need a client (0, 1, ...) and a positive duration"
    require(good, "step_law", name, f"{place}, {entry[:40]!r}: {rule}")
    return int(client), duration


def parse_law(text: str) -> StepLaw:
    """The law named on the command line: `geometric`, `lognormal:0.5`, `trace:FILE`, ...

    >>> parse_law("lognormal:0.5")
    LogNormal(spread=0.5)
    """
    name, _, argument = text.partition(":")
    match name, argument:
        case "geometric", "":
            return Geometric()
        case "exponential", "":
            return Exponential()
        case "deterministic", "":
            return Deterministic()
        case "lognormal", "":
            return LogNormal()
        case "lognormal", spread:
            try:
                return LogNormal(float(spread))
            except ValueError:
                rule = f"need lognormal or lognormal:SPREAD, a positive number, {_WIDEST} at most"
                raise BadInput("step_law", text, rule) from None
        case "half-normal", "":
            return HalfNormal()
        case "trace", path if path:
            return read_trace(Path(path))
    rule = "need geometric, exponential, deterministic, half-normal, lognormal[:SPREAD] or "
    rule += "trace:FILE"
    raise BadInput("step_law", text, rule)


def _positive(mean: Floats) -> None:
    good = bool(np.isfinite(mean).all() and (mean > 0).all())
    require(good, "step mean", mean.min(), "need finite positive means")
