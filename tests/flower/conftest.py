"""Helpers that need Flower are looked at only where it is installed."""

from importlib.util import find_spec

_HELPERS = [
    "attacks.py",
    "calls.py",
    "fake_grid.py",
    "fault_script.py",
    "federation.py",
    "federations.py",
    "loopback.py",
]

collect_ignore = [] if find_spec("flwr") else _HELPERS
