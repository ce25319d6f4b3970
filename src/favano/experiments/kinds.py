"""The kinds of values that the keys of a specification take."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field


def _fraction(value: object) -> object:
    """Let `1/9` be written as such."""
    try:
        return float(Fraction(value)) if isinstance(value, str) else value
    except (ValueError, ZeroDivisionError):
        return value


Count = Annotated[int, Field(ge=1)]
Time = Annotated[float, Field(ge=0)]
PositiveTime = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1), BeforeValidator(_fraction)]
Rate = Annotated[float, Field(ge=0)]
PositiveShare = Annotated[float, Field(gt=0, le=1), BeforeValidator(_fraction)]
CodecName = Literal["none", "lattice", "min-max", "qsgd"]
