"""Methods by name: ours, those of installed packages, and those in a file of the user's."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import module_from_spec, spec_from_file_location
from inspect import isabstract
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import TypeAlias, TypeVar, cast

from favano.code_digest import code_digest, file_digest
from favano.errors import BadInput, require
from favano.methods.method import Method, State
from favano.notices import notice
from favano.options import Options, did_you_mean, options_of, refused_when_used

B = TypeVar("B", bound=Options)
AnyMethod: TypeAlias = Method[State]
AMethod: TypeAlias = "str | Method | type[Method]"  # type: ignore[type-arg]
GROUP = "favano.methods"  # entry points of other packages
_TRUSTED: ContextVar[frozenset[Path] | None] = ContextVar("trusted", default=None)  # None: all


@cache
def our_methods() -> Mapping[str, type[AnyMethod]]:
    """The methods of this package, by name; every file beside this one may hold one."""
    package = import_module("favano.methods")
    names = (module.name for module in iter_modules(package.__path__))
    modules = (import_module(f"favano.methods.{name}") for name in names)
    base: type[AnyMethod] = Method  # type: ignore[type-abstract]
    kinds = [kind for module in modules for kind in _classes(module, base)]
    return {kind.name: kind for kind in sorted(kinds, key=_place)}


def _place(method: type[AnyMethod]) -> tuple[float, str]:
    return (float("inf") if method.plot_style is None else method.plot_style, method.name)


@cache
def installed_methods() -> Mapping[str, type[AnyMethod]]:
    """The methods of other installed packages, by name; one that cannot be used is left out."""
    methods: dict[str, type[AnyMethod]] = {}
    for point in entry_points(group=GROUP):
        try:
            with refused_when_used():
                method = point.load()
            _check_class(method, point.value)
            taken = our_methods().keys() | methods.keys()
            require(
                method.name not in taken, "method", point.value, f"{method.name} is taken already"
            )
            methods[method.name] = method
        except Exception as error:  # whatever a package of others does
            notice(f"entry point {point.name} is left out: {error}")
    return methods


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


@contextmanager
def only_trusted(files: Iterable[Path | str]) -> Iterator[None]:
    """In this block no file of a method is executed but these.

    For whatever a folder says about itself: it may come from a stranger.
    """
    before = _TRUSTED.set(frozenset(Path(file).resolve() for file in files))
    try:
        yield
    finally:
        _TRUSTED.reset(before)


def file_of(name: str) -> Path | None:
    """The Python file in the name of a class, `path/to/file.py:Name`; None if there is none."""
    stem, colon, _ = name.rpartition(".py:")
    return Path(f"{stem}.py" if colon else name) if ".py" in name else None


def class_in_file(place: str, path: Path, base: type[B], key: str) -> type[B]:
    """The class of this kind that a file of the user's holds; `key` is what named the place."""
    require(path.is_file(), key, place, f"no such file: {path}")
    digest, trusted = file_digest(path.resolve()), _TRUSTED.get()
    rule = f"would be executed (SHA-256 {digest}); if you trust this file, add --trust {path}"
    require(trusted is None or path.resolve() in trusted, key, place, rule)
    module = _load(path.resolve(), digest, key)
    name = place.rpartition(".py:")[2] if ".py:" in place else ""
    kinds = {kind.__name__: kind for kind in _classes(module, base)}
    known = ", ".join(kinds) or f"no {base.__name__}"
    if not name and len(kinds) == 1:
        name = next(iter(kinds))
    require(name in kinds, key, place, f"{path} holds {known}; need {path}:NAME")
    if (refusal := kinds[name].refusal) is not None:
        raise refusal
    kinds[name].import_path = f"{path}:{name}"  # type: ignore[attr-defined]
    return kinds[name]


@cache
def _load(path: Path, digest: str, key: str) -> ModuleType:
    """The module of a file, loaded once for each content of it."""
    spec = spec_from_file_location(f"favano_method_{digest[:16]}", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    module.__dict__["__digest__"] = digest
    sys.modules[spec.name] = module
    if (folder := str(path.parent)) not in sys.path:
        sys.path.append(folder)
    try:
        with refused_when_used():
            spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[spec.name]
        problem = f"{type(error).__name__}: {error}"
        raise BadInput(key, path, f"cannot be loaded: {problem}") from error
    return module


def _classes(module: ModuleType, base: type[B]) -> list[type[B]]:
    """Classes of a kind that are defined in a module."""
    return [
        member
        for member in vars(module).values()
        if isinstance(member, type)
        and issubclass(member, base)
        and member.__module__ == module.__name__
        and not isabstract(member)
    ]


def _check_class(method: object, place: str) -> None:
    right = isinstance(method, type) and issubclass(method, Method) and not isabstract(method)
    require(right, "method", place, "need a class that inherits from favano.Method")
    if isinstance(method, type) and issubclass(method, Method) and method.refusal is not None:
        raise method.refusal


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
        require(
            not isabstract(given), "method", given.__name__, "need a class with policy and update"
        )
        made = cast(AnyMethod, given())
    else:
        rule = "need a name, file.py:Name, or an object of favano.Method"
        require(isinstance(given, Method), "method", type(given).__name__, rule)
        made = cast(AnyMethod, given)
    require(isinstance(made.label, str), "label", made.label, "need a text")
    return made


def foreign_option(key: str, value: object, kinds: Iterable[type[AnyMethod]]) -> BadInput:
    """The refusal of an option that none of these methods has."""
    owners = [name for name, kind in all_methods().items() if key in options_of(kind)]
    names = ", ".join(kind.name for kind in kinds)
    if owners:
        return BadInput(key, value, f"is a key of {', '.join(owners)}, not of {names}")
    known = [name for kind in kinds for name in options_of(kind)]
    return BadInput(key, value, f"unknown key; {did_you_mean(key, known)}")


def is_ours(part: Options | type[Options]) -> bool:
    """Whether a method or a server transform belongs to this package."""
    kind = part if isinstance(part, type) else type(part)
    return kind.__module__.startswith("favano.")


def source_digest(part: Options) -> str | None:
    """A digest of the file that a class is written in and of those beside it that it imports.

    Of a class in a notebook it is that of its code; None for ours.
    """
    if is_ours(part):
        return None
    module = sys.modules.get(type(part).__module__)
    if (digest := getattr(module, "__digest__", None)) is not None:  # as it was when loaded
        return str(digest)
    path = Path(getattr(module, "__file__", None) or "")
    if not path.is_file():  # of a notebook
        return code_digest(type(part))
    return file_digest(path)
