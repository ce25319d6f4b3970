"""How long one local step of a client lasts: the laws of D, given its mean m."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from favano.errors import need
from favano.rng import Stream, normal, uniform
from favano.types import Floats, Ints


class StepLaw(Protocol):
    """A law of step durations; `client` is the client's stream, `index` the number of the draw."""

    def check(self, mean: Floats) -> None:
        """Refuse means that this law cannot have."""

    def draw(self, seed: int, client: Ints, index: Ints, mean: Floats) -> Floats:
        """Durations for each (client, index), broadcast."""


@dataclass(frozen=True)
class Geometric:
    """P(D = d) = lambda (1 - lambda)^(d-1) on {1, 2, ...}, lambda = 1/m; the paper's law."""

    def check(self, mean: Floats) -> None:
        """A geometric step lasts at least one unit of time."""
        good = bool(np.isfinite(mean).all() and (mean >= 1).all())
        need(good, "step mean", mean.min(), "geometric steps need a finite mean >= 1")

    def draw(self, seed: int, client: Ints, index: Ints, mean: Floats) -> Floats:
        """Inverse transform: ceil(log U / log(1 - 1/m))."""
        with np.errstate(divide="ignore"):
            scale = -1.0 / np.log1p(-1.0 / mean)  # 0 where m = 1: every step lasts one unit
        drawn = -np.log(uniform(seed, Stream.DURATIONS, client, index))
        return np.asarray(np.maximum(1.0, np.ceil(drawn * scale)))


@dataclass(frozen=True)
class Exponential:
    """Exponential steps of mean m."""

    def check(self, mean: Floats) -> None:
        """Any positive mean will do."""
        _positive(mean)

    def draw(self, seed: int, client: Ints, index: Ints, mean: Floats) -> Floats:
        """Inverse transform: -m log U."""
        return np.asarray(-mean * np.log(uniform(seed, Stream.DURATIONS, client, index)))


@dataclass(frozen=True)
class Deterministic:
    """Every step lasts exactly m."""

    def check(self, mean: Floats) -> None:
        """Any positive mean will do."""
        _positive(mean)

    def draw(self, seed: int, client: Ints, index: Ints, mean: Floats) -> Floats:
        """The mean, once for each (client, index)."""
        shape = np.broadcast_shapes(np.shape(client), np.shape(index), np.shape(mean))
        return np.broadcast_to(mean, shape)


@dataclass(frozen=True)
class LogNormal:
    """log D ~ N(log m - spread^2/2, spread^2): mean m, heavy on the right."""

    spread: float = 1.0

    def __post_init__(self) -> None:
        need(self.spread > 0, "step_law spread", self.spread, "need a positive number")

    def check(self, mean: Floats) -> None:
        """Any positive mean will do."""
        _positive(mean)

    def draw(self, seed: int, client: Ints, index: Ints, mean: Floats) -> Floats:
        """Exponential of a normal draw."""
        location = np.log(mean) - self.spread**2 / 2
        drawn = normal(seed, Stream.DURATIONS, client, index)
        return np.asarray(np.exp(location + self.spread * drawn))


@dataclass(frozen=True)
class Trace:
    """Recorded durations, one row for each client stream, repeated from the start when used up."""

    rows: tuple[Floats, ...]

    def __post_init__(self) -> None:
        need(len(self.rows) > 0, "trace", "", "holds no client")
        for client, row in enumerate(self.rows):
            need(len(row) > 0, "trace", f"client {client}", "has no recorded step")
            good = bool(np.isfinite(row).all() and (row > 0).all())
            need(good, "trace", f"client {client}", "durations must be finite and positive")

    def means(self) -> Floats:
        """Mean recorded duration of each client."""
        return np.array([row.mean() for row in self.rows])

    def check(self, mean: Floats) -> None:
        """One row for each client."""
        need(len(mean) == len(self.rows), "trace", len(self.rows), f"need {len(mean)} clients")

    def draw(self, seed: int, client: Ints, index: Ints, mean: Floats) -> Floats:
        """Entry `index` of the client's row."""
        length = np.array([len(row) for row in self.rows])
        start = np.concatenate([[0], np.cumsum(length)[:-1]])
        place = start[client] + np.asarray(index) % length[client]
        return np.asarray(np.concatenate(self.rows)[place], dtype=np.float64)


def read_trace(path: Path) -> Trace:
    """A trace from a CSV file with the columns `client,duration`, clients numbered from 0."""
    need(path.is_file(), "step_law", f"trace:{path}", "no such file")
    try:
        table = np.loadtxt(path, delimiter=",", skiprows=1, ndmin=2, dtype=np.float64)
    except ValueError as error:
        need(False, "step_law", f"trace:{path}", f"need the columns client,duration ({error})")
    need(table.size > 0 and table.shape[1] == 2, "step_law", f"trace:{path}", "need two columns")
    client = table[:, 0].astype(np.int64)
    return Trace(tuple(table[client == row, 1] for row in range(int(client.max()) + 1)))


def parse_law(text: str) -> StepLaw:
    """The law named on the command line: `geometric`, `lognormal:0.5`, `trace:FILE`, ...

    >>> parse_law("lognormal:0.5")
    LogNormal(spread=0.5)
    """
    name, _, argument = text.partition(":")
    simple: dict[str, StepLaw] = {
        "geometric": Geometric(),
        "exponential": Exponential(),
        "deterministic": Deterministic(),
    }
    if name in simple and not argument:
        return simple[name]
    if name == "lognormal":
        try:
            return LogNormal(float(argument)) if argument else LogNormal()
        except ValueError:
            need(False, "step_law", text, "need lognormal or lognormal:SPREAD, a positive number")
    need(name == "trace" and argument != "", "step_law", text, _LAW_RULE)
    return read_trace(Path(argument))


_LAW_RULE = "need geometric, exponential, deterministic, lognormal[:SPREAD] or trace:FILE"


def _positive(mean: Floats) -> None:
    good = bool(np.isfinite(mean).all() and (mean > 0).all())
    need(good, "step mean", mean.min(), "need finite positive means")
