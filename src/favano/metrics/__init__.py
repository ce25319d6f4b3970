"""Evaluation, history and the ledger of runs."""

from favano.metrics.evaluation import Evaluator, Score
from favano.metrics.history import Row, from_csv, to_csv, up_to
from favano.metrics.ledger import (
    Ending,
    Entry,
    Rates,
    entries_from_csv,
    entries_to_csv,
    rates_tried,
)

__all__ = [
    "Ending",
    "Entry",
    "Evaluator",
    "Rates",
    "Row",
    "Score",
    "entries_from_csv",
    "entries_to_csv",
    "from_csv",
    "rates_tried",
    "to_csv",
    "up_to",
]
