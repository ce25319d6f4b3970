"""Evaluation and history."""

from favano.metrics.evaluation import Evaluator, Score
from favano.metrics.history import Row, from_csv, to_csv

__all__ = ["Evaluator", "Row", "Score", "from_csv", "to_csv"]
