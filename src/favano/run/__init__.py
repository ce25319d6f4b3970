"""Runs from data to results: assembly, training, result folders, and the Python interface."""
