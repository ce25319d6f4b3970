"""From a schedule and a trainer to a history."""

from favano.engine.audit import effective_weights
from favano.engine.blend import is_linear
from favano.engine.live import live_models
from favano.engine.pool import Step, pooled
from favano.engine.recorder import (
    Observation,
    Recorder,
    count_work,
    evaluation_times,
    spread_of,
)
from favano.engine.replay import Buffers, Moment, NonFinite, Replay, replayed
from favano.engine.spread import Spread
from favano.engine.store import ModelStore
from favano.engine.waves import Waves

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
    "Waves",
    "count_work",
    "effective_weights",
    "evaluation_times",
    "is_linear",
    "live_models",
    "pooled",
    "replayed",
    "spread_of",
]
