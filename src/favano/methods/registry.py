"""Methods by name: ours, those of installed packages, and those in a file of the user's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from inspect import isabstract
from pkgutil import iter_modules
from typing import TypeAlias, cast

from favano.errors import BadInput, require
from favano.methods.method import Method, State
from favano.options import did_you_mean, options_of
from favano.user_classes import class_in_file, classes_in, file_of, installed_classes

AnyMethod: TypeAlias = Method[State]
AMethod: TypeAlias = "str | Method | type[Method]"  # type: ignore[type-arg]
GROUP = "favano.methods"  # entry points of other packages


@cache
def our_methods() -> Mapping[str, type[AnyMethod]]:
    """The methods of this package, by name; every file beside this one may hold one."""
    package = import_module("favano.methods")
    names = (module.name for module in iter_modules(package.__path__))
    modules = (import_module(f"favano.methods.{name}") for name in names)
    base: type[AnyMethod] = Method  # type: ignore[type-abstract]
    kinds = [kind for module in modules for kind in classes_in(module, base)]
    return {kind.name: kind for kind in sorted(kinds, key=_place)}


def _place(method: type[AnyMethod]) -> tuple[float, str]:
    return (float("inf") if method.plot_style is None else method.plot_style, method.name)


@cache
def installed_methods() -> Mapping[str, type[AnyMethod]]:
    """The methods of other installed packages, by name; one that cannot be used is left out."""
    base: type[AnyMethod] = Method  # type: ignore[type-abstract]
    return installed_classes(GROUP, base, "method", our_methods())


def all_methods() -> dict[str, type[AnyMethod]]:
    """All methods that have a name: ours, and those of installed packages."""
    return {**our_methods(), **installed_methods()}


def method_class(name: str) -> type[AnyMethod]:
    """The method of a name, or of `path/to/file.py:Name`."""
    if (path := file_of(name)) is not None:
        return cast(type[AnyMethod], class_in_file(name, path, Method, "algorithm"))
    kind = our_methods().get(name) or installed_methods().get(name)
    if kind is None:
        raise BadInput("algorithm", name, f"unknown; {did_you_mean(name, all_methods())}")
    return kind


def make_method(
    method: str | type[AnyMethod], options: Mapping[str, object], label: str = ""
) -> AnyMethod:
    """A method with some of its options; a name that it does not know is refused."""
    kind = method_class(method) if isinstance(method, str) else method
    for key, value in options.items():
        if key not in options_of(kind):
            raise foreign_option(key, value, [kind])
    return replace(kind(**dict(options)), label=label)  # type: ignore[arg-type]


def as_method(given: AMethod) -> AnyMethod:
    """The method of a name, a class or an object."""
    if isinstance(given, str):
        made = make_method(given, {})
    elif isinstance(given, type) and issubclass(given, Method):
        lacking = ", ".join(sorted(getattr(given, "__abstractmethods__", ())))
        require(not isabstract(given), "method", given.__name__, f"lacks {lacking}; define it")
        made = cast(AnyMethod, given())
    else:
        rule = "need a name, file.py:Name, or an object of favano.Method"
        require(isinstance(given, Method), "method", type(given).__name__, rule)
        made = cast(AnyMethod, given)
    require(isinstance(made.label, str), "label", made.label, "need a text")
    return made


def foreign_option(key: str, value: object, kinds: Iterable[type[AnyMethod]]) -> BadInput:
    """The refusal of an option that none of these methods has."""
    kinds = list(kinds)
    for kind in kinds:
        if why := kind.meaningless.get(key):
            return BadInput(key, value, f"has no meaning with {kind.name}: {why}; remove it")
    owners = [name for name, kind in all_methods().items() if key in options_of(kind)]
    names = ", ".join(kind.name for kind in kinds)
    if owners:
        return BadInput(key, value, f"is a key of {', '.join(owners)}, not of {names}")
    known = [name for kind in kinds for name in options_of(kind)]
    return BadInput(key, value, f"unknown key; {did_you_mean(key, known)}")
