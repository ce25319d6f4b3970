"""Runs on a Ray cluster. Nothing else imports Ray."""

from __future__ import annotations

from contextlib import AbstractContextManager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from favano.errors import require

if TYPE_CHECKING:
    from favano.run.backend import Place


def connect(address: str) -> AbstractContextManager[Place]:
    """The cluster at an address, or with `auto` one of this machine alone."""
    rule = "needs Ray, which is not installed: pip install 'favano[cluster]'"
    require(find_spec("ray") is not None, "cluster", address, rule)
    from favano.cluster.ray_cluster import connected

    return connected(address)
