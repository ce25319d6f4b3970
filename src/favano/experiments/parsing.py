"""Specifications from configuration files and flags: what is wrong is said in one sentence."""

from __future__ import annotations

from difflib import get_close_matches

from pydantic import ValidationError

from favano.errors import BadInput
from favano.experiments.spec import Spec


def make_spec(values: dict[str, object]) -> Spec:
    """A specification from a configuration file or flags; bad values are refused by name.

    >>> make_spec({"clients": 10, "selected": 30})
    Traceback (most recent call last):
    favano.errors.BadInput: selected=30: need 1..clients (10)
    """
    try:
        return Spec.model_validate(values)
    except ValidationError as error:
        raise _sentence(error) from None


def _sentence(error: ValidationError) -> BadInput:
    """The first complaint as one sentence with name, value and rule."""
    first = error.errors()[0]
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, BadInput):
        return cause
    name = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        close = get_close_matches(name, Spec.model_fields, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        return BadInput(name, first["input"], f"unknown key; {hint}known: {known_keys()}")
    rule = first["msg"][0].lower() + first["msg"][1:].replace("'", "")
    return BadInput(name, first["input"], rule.replace("input should be", "need"))


def known_keys() -> str:
    """All keys of a configuration, for messages."""
    return ", ".join(Spec.model_fields)
