"""The paper's mathematics as functions. NumPy and SciPy only."""

from favano.theory.steps import StepCount, expected_counts, step_count
from favano.theory.windows import expected_windows, job_windows

__all__ = ["StepCount", "expected_counts", "expected_windows", "job_windows", "step_count"]
