"""From a schedule and a trainer to a history."""

from favano.engine.audit import effective_weights
from favano.engine.replay import Moment, NonFinite, Replay
from favano.engine.simulate import Observation, count_work, evaluation_times, simulate
from favano.engine.store import ModelStore, Spread

__all__ = [
    "ModelStore",
    "Moment",
    "NonFinite",
    "Observation",
    "Replay",
    "Spread",
    "count_work",
    "effective_weights",
    "evaluation_times",
    "simulate",
]
