"""From a schedule and a trainer to a history."""

from favano.engine.audit import effective_weights
from favano.engine.live import live_models
from favano.engine.replay import Buffers, Moment, NonFinite, Replay, replayed
from favano.engine.simulate import Observation, Recorder, count_work, evaluation_times, simulate
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
    "count_work",
    "effective_weights",
    "evaluation_times",
    "live_models",
    "replayed",
    "simulate",
]
