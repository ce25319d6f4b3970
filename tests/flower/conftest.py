"""Helpers that need Flower are looked at only where it is installed."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("flwr") else ["calls.py", "federation.py"]
