"""Policies by name: ours, those of installed packages, and those in a file of the user's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from inspect import isabstract
from typing import Final, TypeAlias

from favano.errors import BadInput, require
from favano.options import did_you_mean, options_of
from favano.policies.buffered import Buffered
from favano.policies.policy import Policy
from favano.policies.polling import Polling
from favano.policies.rounds import Rounds
from favano.policies.selection import Selection
from favano.policies.selection_names import as_selection
from favano.policies.windowed import Windowed
from favano.user_classes import class_in_file, file_of, installed_classes

APolicy: TypeAlias = str | Policy | type[Policy] | Mapping[str, object]
GROUP = "favano.policies"  # entry points of other packages
NAME = "name"  # of a policy among its options, in files
OURS: Final[Mapping[str, type[Policy]]] = {
    kind.name: kind for kind in (Polling, Rounds, Buffered, Windowed)
}


@cache
def installed_policies() -> Mapping[str, type[Policy]]:
    """The policies of other installed packages, by name; one that cannot be used is left out."""
    return installed_classes(GROUP, Policy, "policy", OURS)  # type: ignore[type-abstract]


def all_policies() -> dict[str, type[Policy]]:
    """All policies that have a name: ours, and those of installed packages."""
    return {**OURS, **installed_policies()}


def policy_class(name: str) -> type[Policy]:
    """The policy of a name, or of `path/to/file.py:Name`."""
    if (path := file_of(name)) is not None:
        return class_in_file(name, path, Policy, "policy")  # type: ignore[type-abstract]
    kind = OURS.get(name) or installed_policies().get(name)
    if kind is None:
        known = did_you_mean(name, [*all_policies(), "file.py:Name"])
        raise BadInput("policy", name, f"unknown; {known}")
    return kind


def as_policy(given: object, known: Mapping[str, type[Policy]] | None = None) -> Policy:
    """The policy of a name, a class, an object, or a table of a name and options.

    `known` are classes that cannot be found by their names.
    """
    if isinstance(given, Policy):
        return given
    if isinstance(given, type) and issubclass(given, Policy):
        rule = "need a class with join, leave, receive, act and wakes"
        require(not isabstract(given), "policy", given.__name__, rule)
        return given()
    table = {NAME: given} if isinstance(given, str) else given
    rule = "need a name, file.py:Name, or an object of favano.Policy"
    if not isinstance(table, Mapping):
        raise BadInput("policy", type(given).__name__, rule)
    name = table.get(NAME)
    if not isinstance(name, str) or not name.isprintable():
        raise BadInput("policy", dict(table), f"need its {NAME}, as {NAME} = 'rounds'")
    kind = (known or {}).get(name) or policy_class(name)
    return with_options(kind(), {key: value for key, value in table.items() if key != NAME})


def with_options(policy: Policy, options: Mapping[str, object]) -> Policy:
    """The policy with some options replaced; a name that it does not know is refused."""
    names, values = options_of(type(policy)), dict(options)
    for key, value in options.items():
        if key not in names:
            rule = f"unknown key of policy {type(policy).__name__}; {did_you_mean(key, names)}"
            raise BadInput(key, value, rule)
        if names[key].kind is Selection:  # files and flags have it as a text
            values[key] = as_selection(value)
    return replace(policy, **values)  # type: ignore[arg-type]
