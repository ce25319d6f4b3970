"""Clocks: step-time laws and fleets. NumPy only."""

from favano.timing.fleet import Fleet, Order, Rounding, make_fleet, traced_fleet, two_speeds
from favano.timing.laws import (
    Deterministic,
    Exponential,
    Geometric,
    LogNormal,
    StepLaw,
    Trace,
    parse_law,
    read_trace,
)

__all__ = [
    "Deterministic",
    "Exponential",
    "Fleet",
    "Geometric",
    "LogNormal",
    "Order",
    "Rounding",
    "StepLaw",
    "Trace",
    "make_fleet",
    "parse_law",
    "read_trace",
    "traced_fleet",
    "two_speeds",
]
