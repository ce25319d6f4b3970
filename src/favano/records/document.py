"""JSON documents: null stands for NaN and infinity, which JSON does not have."""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Mapping
from dataclasses import field, fields, is_dataclass
from functools import cache
from typing import Annotated, Any, TypeAlias, TypeVar, cast

from pydantic import BeforeValidator, Field, TypeAdapter

Document = TypeVar("Document")


_SPREAD, _OMITTED = "spread", "omitted"


def spread(prefix: str = "") -> dict[str, float]:
    """A field of a dataclass, a mapping, whose keys are keys of the document itself."""
    return field(default_factory=dict, metadata={_SPREAD: prefix})


def omitted(default: Document) -> Document:
    """A field of a dataclass that is left out of the document where it has its default."""
    return field(default=default, metadata={_OMITTED: True})


def to_json(document: object, *, indent: int | None = None) -> str:
    """A document as JSON text; a dataclass is a table of its fields, in their order.

    >>> to_json({"loss": float("nan"), "rows": [(1, float("inf"))]})
    '{"loss": null, "rows": [[1, null]]}'
    """
    return json.dumps(finite(document), indent=indent, allow_nan=False)


def from_json(kind: type[Document], text: str | bytes) -> Document:
    """A dataclass from JSON text, or a `ValueError`. Unknown keys are ignored."""
    adapter: TypeAdapter[Document] = _adapter(cast(Hashable, kind))
    return adapter.validate_json(text)


@cache
def _adapter(kind: Hashable) -> TypeAdapter[Any]:
    return TypeAdapter(cast(Any, kind))


def finite(document: object) -> object:
    """A copy of a document, with None for every number that is not finite."""
    if isinstance(document, float):
        return document if math.isfinite(document) else None
    if isinstance(document, Mapping):
        return {key: finite(value) for key, value in document.items()}
    if isinstance(document, list | tuple):
        return [finite(value) for value in document]
    if is_dataclass(document):
        copied: dict[str, object] = {}
        for attribute in fields(document):
            value = getattr(document, attribute.name)
            if attribute.metadata.get(_SPREAD) is not None:
                prefix = attribute.metadata[_SPREAD]
                copied |= {f"{prefix}{key}": finite(cell) for key, cell in value.items()}
            elif not (attribute.metadata.get(_OMITTED) and value == attribute.default):
                copied[attribute.name] = finite(value)
        return copied
    return document


def null_is_nan(value: object) -> object:
    """A value of a document with NaN for None, also inside lists.

    >>> null_is_nan([[1.0, None]])
    [[1.0, nan]]
    """
    if isinstance(value, list):
        return [null_is_nan(item) for item in value]
    return math.nan if value is None else value


Whole: TypeAlias = Annotated[int, Field(gt=-(1 << 63), lt=1 << 63)]
Number: TypeAlias = Annotated[float, BeforeValidator(null_is_nan)]  # null is read as NaN
# Whose a saved state or result is: values, digests and words; some values have named parts.
Identity: TypeAlias = Mapping[str, object]


def differing(identity: Identity, other: Identity) -> list[str]:
    """Names under which these differ; of parts, if both have some.

    >>> differing({"seed": 0, "keys": {"a": 1, "b": 2}}, {"seed": 0, "keys": {"a": 1, "b": 3}})
    ['b']
    """
    names = list[str]()
    for name in {**identity, **other}:
        mine, others = identity.get(name), other.get(name)
        if isinstance(mine, Mapping) and isinstance(others, Mapping):
            names += differing(mine, others)
        elif mine != others:
            names.append(name)
    return names
