"""The keys that functions take by name are those of clock, server, training and run."""

from __future__ import annotations

import types
from typing import Annotated, Union, get_args, get_origin, get_type_hints

from favano.options import options_of
from favano.specification.keys import Keys
from favano.specification.spec import PARTS

PLACES = ("clock", "server", "training", "run")
OPTIONS = {key: one for part in PLACES for key, one in options_of(PARTS[part]).items()}


def plain(kind: object) -> object:
    """A type without its bounds, and without None, which stands for what is not given."""
    if get_origin(kind) is Annotated:
        return plain(get_args(kind)[0])
    if get_origin(kind) in (Union, types.UnionType):
        (found,) = {plain(one) for one in get_args(kind)} - {type(None)}
        return found
    return kind


def test_every_key_is_there_in_the_same_order() -> None:
    assert list(Keys.__annotations__) == list(OPTIONS)
    assert Keys.__total__ is False


def test_every_key_has_the_type_of_its_option() -> None:
    hints = get_type_hints(Keys)
    assert {key: plain(one.kind) for key, one in OPTIONS.items()} == hints
    choices = [kind for kind in hints.values() if str(kind).startswith("typing.Literal")]
    assert len(choices) > 10


def test_no_other_part_has_a_key_of_the_same_name() -> None:
    others = {key for part in ("problem", "fleet") for key in options_of(PARTS[part])}
    assert not others & OPTIONS.keys()
