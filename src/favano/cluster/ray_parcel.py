"""Data, networks and code of the user's on their way to other machines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import ray
from ray import cloudpickle

from favano.code_digest import user_modules
from favano.errors import BadInput, format_error
from favano.run.inputs import RunInputs


class Parcel(NamedTuple):
    """Inputs of runs, here and in Ray's object store, from where each node takes them once."""

    here: RunInputs
    there: object


@contextmanager
def user_code() -> Iterator[None]:
    """In this block modules of the user's travel with what is sent: nodes do not have them."""
    modules = user_modules()
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)


def parcel(inputs: RunInputs) -> Parcel:
    """Put inputs into the object store; what cannot be sent is refused by its name."""
    for name in ("model", "loss", "metrics"):
        part = getattr(inputs, name)
        try:
            cloudpickle.dumps(part)
        except Exception as error:  # of whatever the user's objects hold
            rule = f"cannot be sent to other machines: {format_error(error)}"
            raise BadInput(name, type(part).__name__, rule) from error
    return Parcel(inputs, ray.put(inputs))
