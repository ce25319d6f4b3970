"""JSON documents: null stands for NaN and infinity, which JSON does not have."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Annotated, TypeAlias, TypeVar

from pydantic import BeforeValidator, TypeAdapter

Document = TypeVar("Document")


def to_json(document: object, *, indent: int | None = None) -> str:
    """A document as JSON text; a dataclass is a table of its fields, in their order.

    >>> to_json({"loss": float("nan"), "rows": [(1, float("inf"))]})
    '{"loss": null, "rows": [[1, null]]}'
    """
    return json.dumps(finite(document), indent=indent, allow_nan=False)


def from_json(kind: type[Document], text: str | bytes) -> Document:
    """A dataclass from JSON text, or a `ValueError`. Unknown keys are ignored."""
    return TypeAdapter(kind).validate_json(text)


def finite(document: object) -> object:
    """A copy of a document, with None for every number that is not finite."""
    if isinstance(document, float):
        return document if math.isfinite(document) else None
    if isinstance(document, Mapping):
        return {key: finite(value) for key, value in document.items()}
    if isinstance(document, list | tuple):
        return [finite(value) for value in document]
    if is_dataclass(document):
        return {field.name: finite(getattr(document, field.name)) for field in fields(document)}
    return document


def null_is_nan(value: object) -> object:
    """A value of a document with NaN for None, also inside lists.

    >>> null_is_nan([[1.0, None]])
    [[1.0, nan]]
    """
    if isinstance(value, list):
        return [null_is_nan(one) for one in value]
    return math.nan if value is None else value


Number: TypeAlias = Annotated[float, BeforeValidator(null_is_nan)]  # null is read as NaN
