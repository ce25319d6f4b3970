"""One file per method, with its options; pure functions on flat models."""

from favano.methods.context import Context
from favano.methods.method import ClientUpdates, Method, ModelState, State
from favano.methods.registry import (
    AMethod,
    AnyMethod,
    all_methods,
    as_method,
    foreign_option,
    make_method,
    method_class,
    our_methods,
)
from favano.methods.weights import measured

__all__ = [
    "AMethod",
    "AnyMethod",
    "ClientUpdates",
    "Context",
    "Method",
    "ModelState",
    "State",
    "all_methods",
    "as_method",
    "foreign_option",
    "make_method",
    "measured",
    "method_class",
    "our_methods",
]
