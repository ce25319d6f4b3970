"""What the server does to client deltas and to its step: one file per transform."""

from favano.transforms.registry import (
    AnyTransform,
    ATransform,
    as_transform,
    parse_transform,
    transform_class,
)
from favano.transforms.transform import ServerTransform

__all__ = [
    "ATransform",
    "AnyTransform",
    "ServerTransform",
    "as_transform",
    "parse_transform",
    "transform_class",
]
