"""The paper's mathematics as functions. NumPy and SciPy only."""

from favano.theory.steps import StepCount, expected_counts, step_count

__all__ = ["StepCount", "expected_counts", "step_count"]
