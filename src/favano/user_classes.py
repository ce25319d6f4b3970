"""Classes of others, by their place: in a file of the user's, or in an installed package."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.metadata import entry_points
from importlib.util import module_from_spec, spec_from_file_location
from inspect import isabstract
from pathlib import Path
from types import ModuleType
from typing import Final, TypeVar

from favano.code_digest import code_digest, file_digest
from favano.errors import BadInput, format_error, require
from favano.notices import notice
from favano.options import Options, refused_when_used

B = TypeVar("B", bound=Options)
SOURCE: Final = "__source_digest__"  # of a class, where its file is not
_TRUSTED: ContextVar[frozenset[Path] | None] = ContextVar("trusted", default=None)  # None: all


def installed_classes(
    group: str, base: type[B], key: str, ours: Iterable[str]
) -> dict[str, type[B]]:
    """Classes of a kind in other installed packages, by name; a bad one is left out with a notice.

    Args:
        group: of their entry points.
        base: what they inherit from.
        key: what names one, in errors.
        ours: names that are taken.
    """
    known: dict[str, type[B]] = {}
    for point in entry_points(group=group):
        try:
            with refused_when_used():
                kind = point.load()
            right = isinstance(kind, type) and issubclass(kind, base) and not isabstract(kind)
            rule = f"need a class that inherits from favano.{base.__name__}"
            require(right, key, point.value, rule)
            if kind.refusal is not None:
                raise kind.refusal
            taken = {*ours, *known}
            require(kind.name not in taken, key, point.value, f"{kind.name} is taken already")
            known[kind.name] = kind
        except Exception as error:  # whatever a package of others does
            notice(f"entry point {point.name} is left out: {error}")
    return known


@contextmanager
def only_trusted(files: Iterable[Path | str]) -> Iterator[None]:
    """In this block no file of the user's is executed but these.

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
    kinds = {kind.__name__: kind for kind in classes_in(module, base)}
    lacking = ", ".join(getattr(vars(module).get(name), "__abstractmethods__", ()))
    rule = f"lacks {lacking}, which every favano.{base.__name__} needs; define it"
    require(name in kinds or not lacking, key, place, rule)
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
    spec = spec_from_file_location(f"favano_user_{digest[:16]}", path)
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
        raise BadInput(key, path, f"cannot be loaded: {format_error(error)}") from error
    return module


def classes_in(module: ModuleType, base: type[B]) -> list[type[B]]:
    """Classes of a kind that are defined in a module, also those that are refused when used."""
    return [
        member
        for member in vars(module).values()
        if isinstance(member, type)
        and issubclass(member, base)
        and member.__module__ == module.__name__
        and (not isabstract(member) or member.refusal is not None)
    ]


def is_ours(part: Options | type[Options]) -> bool:
    """Whether a method, a policy or a server transform belongs to this package."""
    kind = part if isinstance(part, type) else type(part)
    return kind.__module__.startswith("favano.")


def source_digest(part: Options) -> str | None:
    """A digest of the file that a class is written in and of those beside it that it imports.

    Of a class in a notebook it is that of its code; None for ours.
    """
    if is_ours(part):
        return None
    if (digest := vars(type(part)).get(SOURCE)) is not None:  # of another machine
        return str(digest)
    module = sys.modules.get(type(part).__module__)
    if (digest := getattr(module, "__digest__", None)) is not None:  # as it was when loaded
        return str(digest)
    path = Path(getattr(module, "__file__", None) or "")
    if not path.is_file():  # of a notebook
        return code_digest(type(part))
    return file_digest(path)
