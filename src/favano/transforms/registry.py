"""Transforms by name: ours, and those in a file of the user's."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Final, TypeAlias, cast

from favano.errors import BadInput, require
from favano.methods.registry import class_in_file, file_of
from favano.options import did_you_mean, options_of
from favano.transforms.transform import ServerTransform

AnyTransform: TypeAlias = ServerTransform[object]
ATransform: TypeAlias = str | ServerTransform | type[ServerTransform]  # type: ignore[type-arg]
OURS: Final = {
    "clip": "Clip",
    "median": "Median",
    "trimmed_mean": "TrimmedMean",
    "momentum": "Momentum",
    "adagrad": "Adagrad",
    "adam": "Adam",
    "yogi": "Yogi",
}
Known: TypeAlias = Mapping[str, type[AnyTransform]]  # by name or `file.py:Name`


def transform_class(name: str) -> type[AnyTransform]:
    """The transform of a name, or of `path/to/file.py:Name`."""
    if (path := file_of(name)) is not None:
        return cast(type[AnyTransform], class_in_file(name, path, ServerTransform, "server"))
    if name not in OURS:
        raise BadInput("server", name, f"unknown; {did_you_mean(name, OURS)}")
    return cast(type[AnyTransform], getattr(import_module(f"favano.transforms.{name}"), OURS[name]))


def place_of(text: str) -> tuple[str, list[str]]:
    """The name of a transform in a text, `path/to/file.py:Name` or one of ours, and its values.

    >>> place_of("adam:0.01:beta2=0.9"), place_of("my/file.py:Noise:0.1")
    (('adam', ['0.01', 'beta2=0.9']), ('my/file.py:Noise', ['0.1']))
    """
    path, colon, rest = text.rpartition(".py:")
    name, *values = rest.split(":")
    return f"{path}{colon}{name}", values


def parse_transform(text: str, known: Known | None = None) -> AnyTransform:
    """The transform of a text: its name, then values in order or by name, between colons.

    >>> print(parse_transform("clip:1"), parse_transform("momentum:0.5:rate=2"))
    clip:norm=1.0 momentum:momentum=0.5:rate=2.0
    """
    name, values = place_of(text)
    kind = (known or {}).get(name) or transform_class(name)
    options, given = list(options_of(kind)), dict[str, str]()
    for place, value in enumerate(values):
        key, equals, rest = value.partition("=")
        rule = f"need {':'.join([name, *options])}, or some of these by name, as rate=0.1"
        require(bool(equals) or place < len(options), "server", text, rule)
        key, rest = (key, rest) if equals else (options[place], value)
        require(key in options and key not in given, "server", text, rule)
        given[key] = rest
    try:
        return kind(**given)
    except BadInput as error:
        raise BadInput("server", text, str(error)) from error


def as_transform(given: object) -> AnyTransform:
    """The transform of a text, a class or an object."""
    if isinstance(given, str):
        return parse_transform(given)
    if isinstance(given, type) and issubclass(given, ServerTransform):
        given = given()
    rule = "need a text such as clip:1.0, file.py:Name, or an object of favano.ServerTransform"
    require(isinstance(given, ServerTransform), "server", type(given).__name__, rule)
    made = cast(AnyTransform, given)
    place, text = made.import_path or made.name, str(made)
    rule = "cannot be written as a text: need options that are numbers or plain words"
    require(_is_text_of(made, text, {place: type(made)}), "server", text, rule)
    return made


def _is_text_of(made: AnyTransform, text: str, known: Known) -> bool:
    try:
        return "," not in text and parse_transform(text, known) == made
    except BadInput:
        return False
