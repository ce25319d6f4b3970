"""Every public function of the theory says what it is and shows an example that is run."""

from __future__ import annotations

import inspect

import favano.theory


def test_every_function_has_a_docstring_with_an_example() -> None:
    named = {name: getattr(favano.theory, name) for name in dir(favano.theory)}
    functions = {name: value for name, value in named.items() if inspect.isfunction(value)}
    assert len(functions) > 30
    without = [name for name, value in functions.items() if ">>>" not in (value.__doc__ or "")]
    assert without == []
