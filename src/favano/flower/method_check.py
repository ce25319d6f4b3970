"""Which methods, local trainings and codecs go together in a federation."""

from __future__ import annotations

from favano.errors import BadInput, require
from favano.methods import AnyMethod
from favano.policies import Buffered, Policy
from favano.specification.parts import TrainingPart
from favano.specification.spec import Spec
from favano.types import Buffers

_SIMULATED = ("flush_at_end", "latency")  # options of methods


def check_method(
    method: AnyMethod, policy: Policy, training: TrainingPart, *, codec: str, buffers: Buffers
) -> None:
    """Refuse what would be ignored, and what a replay could not repeat."""
    Spec(method, training=training)  # refuses what does not go together in a simulation either
    for key in _SIMULATED:
        if key in method.given:
            rule = "is about simulated time, which a federation does not have; remove it"
            raise BadInput(key, getattr(method, key), rule)
    rule = f"is not for {method.name}: only its clients know what they go on from"
    require(codec == "none" or not method.has("next_client_model"), "codec", codec, rule)
    if isinstance(policy, Buffered) and not policy.in_turn:
        _check_nothing_kept(method, training, buffers)


def _check_nothing_kept(method: AnyMethod, training: TrainingPart, buffers: Buffers) -> None:
    """What clients keep from job to job is known when their update is used, not before."""
    early = f"with {method.name}, whose clients go on before their update is used"
    require(buffers == "average", "buffers", buffers, f"need average {early}")
    kept, state = training.local_optimiser.kept, training.optimiser_state
    require(not kept, "optimiser_state", state, f"need fresh {early}")
    rule = "has clients with a memory, which must not continue before their update is used"
    require(not method.memory, "method", method.name, rule)
