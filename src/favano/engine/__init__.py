"""From a schedule and a trainer to a history."""

from favano.engine.audit import answer_weights, effective_weights
from favano.engine.live import live_models
from favano.engine.pool import Step, pooled
from favano.engine.recorder import Observation, Recorder, count_work, evaluation_times
from favano.engine.replay import Buffers, Moment, NonFinite, Replay, replayed
from favano.engine.store import ModelStore, Spread

__all__ = [
    "Buffers",
    "ModelStore",
    "Moment",
    "NonFinite",
    "Observation",
    "Recorder",
    "Replay",
    "Spread",
    "Step",
    "answer_weights",
    "count_work",
    "effective_weights",
    "evaluation_times",
    "live_models",
    "pooled",
    "replayed",
]
