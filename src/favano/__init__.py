"""Asynchronous federated learning: FAVANO, its baselines, and a simulator in virtual time.

>>> import favano
>>> favano.Spec(algorithm="favano", clients=20, selected=5).selected
5
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from favano.experiments.api import simulate as simulate
    from favano.experiments.result import Interrupted as Interrupted
    from favano.experiments.result import Result as Result
    from favano.experiments.spec import Spec as Spec

__version__ = "0.1.0"
__all__ = ["Interrupted", "Result", "Spec", "__version__", "simulate"]

_HOME = {
    "Interrupted": "favano.experiments.result",
    "Result": "favano.experiments.result",
    "Spec": "favano.experiments.spec",
    "simulate": "favano.experiments.api",
}


def __getattr__(name: str) -> object:
    """Import what is asked for, when it is asked for: `import favano` itself stays light."""
    if name not in _HOME:
        raise AttributeError(f"module 'favano' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOME[name]), name)
