"""Asynchronous federated learning: FAVANO, its baselines, and a simulator in virtual time."""

__version__ = "0.1.0"
