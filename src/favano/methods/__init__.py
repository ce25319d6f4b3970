"""One file per method, with its options; pure functions on flat models."""

from favano.methods.method import Answers, Method, ModelState, State
from favano.methods.registry import (
    AMethod,
    AnyMethod,
    all_methods,
    as_method,
    file_of,
    foreign_option,
    is_ours,
    make_method,
    method_class,
    only_trusted,
    our_methods,
    source_digest,
)
from favano.methods.world import World

__all__ = [
    "AMethod",
    "Answers",
    "AnyMethod",
    "Method",
    "ModelState",
    "State",
    "World",
    "all_methods",
    "as_method",
    "file_of",
    "foreign_option",
    "is_ours",
    "make_method",
    "method_class",
    "only_trusted",
    "our_methods",
    "source_digest",
]
