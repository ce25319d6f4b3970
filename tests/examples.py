"""How many examples a property test has: the same ones in `make test`, random in `make explore`."""

from __future__ import annotations

from itertools import cycle
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

T = TypeVar("T")


def fix_examples() -> None:
    """The same everywhere, however busy a machine is, and whichever tests ran before."""
    # Hypothesis draws constants of all our modules that this process has imported, too.
    providers._get_local_constants = Constants
    settings.register_profile(
        "fixed",
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("fixed")


def examples(usual: int) -> settings:
    """Fewer than a hundred, where they are costly; `make explore` draws what it is asked for."""
    exploring = settings.get_current_profile_name() == "explore"
    return settings() if exploring else settings(max_examples=usual)


class Drawn:
    """What `st.data()` gave in an example, for `@example(data=Drawn(1, "favano"))`."""

    def __init__(self, *values: Any) -> None:
        self._values = cycle(values)

    def draw(self, strategy: st.SearchStrategy[T], label: object = None) -> T:
        value: T = next(self._values)
        return value
