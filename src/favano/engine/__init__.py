"""From a schedule and a trainer to a history."""

from favano.engine.audit import effective_weights, late_weights, stretch_weights
from favano.engine.blend import is_linear
from favano.engine.link import Link
from favano.engine.live import live_models
from favano.engine.pool import AHEAD, Step, pooled
from favano.engine.recorder import (
    Observation,
    Recorder,
    count_work,
    evaluation_times,
    spread_of,
)
from favano.engine.replay import Buffers, Measured, Moment, NonFinite, Replay, StepSizes, replayed
from favano.engine.scoring import Scoring
from favano.engine.spread import Spread
from favano.engine.store import ModelStore
from favano.engine.turns import Fewer
from favano.engine.waves import Waves

__all__ = [
    "AHEAD",
    "Buffers",
    "Fewer",
    "Link",
    "Measured",
    "ModelStore",
    "Moment",
    "NonFinite",
    "Observation",
    "Recorder",
    "Replay",
    "Scoring",
    "Spread",
    "Step",
    "StepSizes",
    "Waves",
    "count_work",
    "effective_weights",
    "evaluation_times",
    "is_linear",
    "late_weights",
    "live_models",
    "pooled",
    "replayed",
    "spread_of",
    "stretch_weights",
]
