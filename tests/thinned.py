"""Cases that run each time, among many that only `make test-all` runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import pytest
from _pytest.mark import ParameterSet

T = TypeVar("T")


def thinned(every: Iterable[T], quick: Iterable[T]) -> list[ParameterSet]:
    """All cases; those that are not quick are slow tests."""
    known = list(quick)
    return [pytest.param(case, marks=() if case in known else pytest.mark.slow) for case in every]
