"""Transforms by name: ours, and those in a file of the user's."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Final, TypeAlias, cast

from favano.errors import BadInput, require
from favano.options import did_you_mean, from_text, is_text_of, place_of
from favano.transforms.transform import ServerTransform
from favano.user_classes import class_in_file, file_of

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


def transform_class(name: str) -> type[AnyTransform]:
    """The transform of a name, or of `path/to/file.py:Name`."""
    if (path := file_of(name)) is not None:
        return cast(type[AnyTransform], class_in_file(name, path, ServerTransform, "server"))
    if name not in OURS:
        raise BadInput("server", name, f"unknown; {did_you_mean(name, OURS)}")
    return cast(type[AnyTransform], getattr(import_module(f"favano.transforms.{name}"), OURS[name]))


def parse_transform(
    text: str, known: Mapping[str, type[AnyTransform]] = MappingProxyType({})
) -> AnyTransform:
    """The transform of a text: its name, then values in order or by name, between colons.

    >>> print(parse_transform("clip:1"), parse_transform("momentum:0.5:rate=2"))
    clip:norm=1.0 momentum:momentum=0.5:rate=2.0

    `known` are classes that cannot be found by their names.
    """
    name, _ = place_of(text)
    return from_text(known.get(name) or transform_class(name), text, "server")


def as_transform(given: object) -> AnyTransform:
    """The transform of a text, a class or an object."""
    if isinstance(given, str):
        return parse_transform(given)
    if isinstance(given, type) and issubclass(given, ServerTransform):
        given = given()
    rule = "need a text such as clip:1.0, file.py:Name, or an object of favano.ServerTransform"
    require(isinstance(given, ServerTransform), "server", type(given).__name__, rule)
    made = cast(AnyTransform, given)
    text = str(made)
    rule = "cannot be written as a text: need options that are numbers or plain words"
    written = "," not in text and is_text_of(made, text, "server")
    require(written, "server", text, rule)
    return made
