"""The keys that functions take by name are all options of the parts and of our methods."""

from __future__ import annotations

import functools
import operator
import types
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, Union, get_args, get_origin, get_type_hints

from favano.methods import our_methods
from favano.options import Option, options_of
from favano.policies.selection_names import ASelection
from favano.specification.keys import Keys
from favano.specification.spec import PARTS
from favano.transforms import ATransform

ARGUMENTS = ("dataset", "model", "fleet")  # of problem and fleet, which are arguments themselves


def options() -> dict[str, list[Option[object]]]:
    """Every option by its name: of the parts, then of the methods, which may share names."""
    options: dict[str, list[Option[object]]] = defaultdict(list)
    for kind in (*PARTS.values(), *our_methods().values()):
        for name, option in options_of(kind).items():
            options[name].append(option)
    return {name: of for name, of in options.items() if name not in ARGUMENTS}


def plain(kind: object) -> object:
    """A type without its bounds, and without None, which stands for what is not given."""
    if get_origin(kind) is Annotated:
        return plain(get_args(kind)[0])
    if get_origin(kind) in (Union, types.UnionType):
        some = [plain(part) for part in get_args(kind) if part is not type(None)]
        return functools.reduce(operator.or_, some)
    if get_origin(kind) in (tuple, Sequence):
        inner = plain(get_args(kind)[0])
        return Sequence[int] if inner is int else Sequence[float]
    return kind


def united(kinds: list[object]) -> object:
    """One type for the options of one name: that of all, or all their choices."""
    if len(set(kinds)) == 1:
        return kinds[0]
    return {choice for kind in kinds for choice in get_args(kind)}


def test_every_key_is_there_in_the_same_order() -> None:
    assert list(Keys.__annotations__) == ["policy", "reading", *options()]
    assert Keys.__total__ is False


def test_every_key_has_the_type_of_its_option() -> None:
    hints = get_type_hints(Keys)
    for name, of in options().items():
        own: dict[str, object] = {"server": Sequence[ATransform], "selection": ASelection}
        own["local_steps"] = int | Sequence[int]  # K of all, or of each
        own["group"] = Sequence[Mapping[str, object]]
        expected = own[name] if name in own else united([plain(option.kind) for option in of])
        choices = set(get_args(hints[name])) if isinstance(expected, set) else hints[name]
        assert choices == expected, name
    assert sum(get_origin(kind) is Literal for kind in hints.values()) > 20


def test_no_two_parts_have_a_key_of_the_same_name() -> None:
    parts = [options_of(kind).keys() for kind in PARTS.values()]
    assert sum(map(len, parts)) == len(set().union(*parts))
