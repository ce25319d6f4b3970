"""`make explore`: property tests with examples drawn anew, which go on after a find."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Container
from functools import wraps
from inspect import signature
from random import Random
from traceback import extract_tb
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisException

SETS = {"properties": ["tests"]}  # what pytest collects; another word is a file or a folder

T = TypeVar("T")
Test = Callable[..., None]
Place = tuple[str, ...]
Find = tuple[str, Place]  # of this test


class Explorer:
    """A plugin of pytest: an error at another place is another find."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.finds: dict[Find, str] = {}
        self.tests = self.examples = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> bool:
        """All examples as if none failed; then, for each find, a search for a shorter example."""
        test = pyfuncitem.obj
        inner = test.hypothesis.inner_test
        run = seed(self.random.getrandbits(64))(test)
        fixtures = {name: pyfuncitem.funcargs[name] for name in signature(test).parameters}
        self.tests += 1
        try:
            test.hypothesis.inner_test = self._watched(inner, pyfuncitem.nodeid, fixtures)
            run(**fixtures)
            for find in [find for find in self.finds if find[0] == pyfuncitem.nodeid]:
                test.hypothesis.inner_test = self._watched(inner, pyfuncitem.nodeid, fixtures, find)
                try:
                    run(**fixtures)
                except (Exception, pytest.fail.Exception) as error:
                    self.finds[find] = pasteable(self.finds[find], error)
        finally:
            test.hypothesis.inner_test = inner
        return True

    def _watched(
        self, inner: Test, name: str, fixtures: Container[str], shortened: Find | None = None
    ) -> Test:
        """The test; of its errors only that of the find that is made shorter is raised."""

        @wraps(inner)
        def watched(**arguments: Any) -> None:
            for argument, value in arguments.items():
                if isinstance(value, st.DataObject):
                    arguments[argument] = Noted(value)
            try:
                inner(**arguments)
            except HypothesisException:  # this example is rejected
                raise
            except (Exception, pytest.fail.Exception) as error:
                find = name, place_of(error)
                if shortened in (None, find):
                    drawn = {name: arguments[name] for name in arguments if name not in fixtures}
                    self.finds[find] = as_line(drawn, error)
                if shortened == find:
                    raise
            self.examples += shortened is None

        return watched

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for (name, _), line in self.finds.items():
            terminalreporter.write_line(f"{name}\n{line}\n")
        terminalreporter.write_line(
            f"{self.examples} examples of {self.tests} tests, {len(self.finds)} finds"
        )


class Noted:
    """`st.data()` that knows what it gave, and says it as `tests.examples.Drawn` reads it."""

    def __init__(self, data: st.DataObject) -> None:
        self._data, self._given = data, list[str]()

    def draw(self, strategy: st.SearchStrategy[T], label: object = None) -> T:
        value = self._data.draw(strategy, label)
        self._given.append(repr(value))
        return value

    def __repr__(self) -> str:
        return f"Drawn({', '.join(self._given)})"


def place_of(error: BaseException) -> Place:
    """The type of an error, the line of the test, and the last two lines on its way."""
    lines = [f"{frame.filename}:{frame.lineno}" for frame in extract_tb(error.__traceback__)]
    return type(error).__name__, lines[1], *lines[-2:]


def as_line(drawn: dict[str, Any], error: BaseException) -> str:
    arguments = ", ".join(f"{name}={value!r}" for name, value in drawn.items())
    message = " ".join(str(error).split())[:100]
    return f"@example({arguments})  # {type(error).__name__}: {message}"


def pasteable(line: str, error: BaseException) -> str:
    """With a code of Hypothesis for an example that is not written in a line."""
    example, _, comment = line.rpartition("  # ")
    try:
        compile(f"{example}\ndef test(): ...", "", "exec")
        is_code = "\n" not in example
    except SyntaxError:
        is_code = False
    code = re.search(r"@reproduce_failure\(.*\)", "\n".join(getattr(error, "__notes__", ())))
    return line if is_code or not code else f"{code.group()}  # {comment}"


def main(what: str, examples: str, start: str | None = None) -> int:
    """The exit code, 1 where something was found. The same start draws the same examples."""
    settings.register_profile(
        "explore",
        max_examples=int(examples),
        database=None,
        deadline=None,
        print_blob=True,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    settings.load_profile("explore")
    explorer = Explorer(Random(start))
    arguments = ["-c", "pyproject.toml", "-m", "hypothesis", *SETS.get(what, [what])]
    imported = [
        "-W",
        "ignore::pytest.PytestAssertRewriteWarning",
    ]  # Hypothesis is, before pytest is
    code = pytest.main([*arguments, *imported], plugins=[explorer])
    return int(code or len(explorer.finds) > 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
