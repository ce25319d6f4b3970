"""The local training of a federation, as every call carries it: batches, optimiser, precision."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import get_args

from favano.data.batches import Order
from favano.errors import BadInput, require
from favano.methods import AnyMethod, all_methods, make_method
from favano.policies import StepsPerJob
from favano.specification.parts import TrainingPart as TrainingPart
from favano.training import LocalRule

_MOST = 2**20  # samples of a batch
_KEYS = ("batch_size", "batch_order", "training", "method")


@dataclass(frozen=True)
class LocalTraining:
    """How every client trains. Rates and numbers of steps come with each call.

    A method is sent only if its clients have a memory, since they need its `step`.
    """

    batch_size: int
    batch_order: Order = "epoch"
    training: TrainingPart = field(default_factory=TrainingPart)
    method: AnyMethod | None = None

    def __post_init__(self) -> None:
        require(1 <= self.batch_size <= _MOST, "batch_size", self.batch_size, f"need 1..{_MOST}")
        known = get_args(Order)
        require(self.batch_order in known, "batch_order", self.batch_order, f"need one of {known}")
        epochs, rule = self.training.local_epochs, "need batch_order=epoch"
        require(epochs is None or self.batch_order == "epoch", "local_epochs", epochs, rule)

    def job_steps(self, most: int, samples: int) -> int:
        """Steps of a job of a client with so many samples: `most`, or fewer if epochs are."""
        epochs = self.training.local_epochs
        return most if epochs is None else min(most, epochs * -(-samples // self.batch_size))

    def rule(self, *, corrected: bool = False) -> LocalRule:
        """The direction of a client's steps."""
        return self.training.local_rule(self.method, corrected=corrected)


def check_training(
    training: TrainingPart, *, learning_rate: float, local_steps: StepsPerJob
) -> None:
    """Refuse what only simulations have, and what the server says otherwise."""
    for name, said in (("learning_rate", learning_rate), ("local_steps", local_steps)):
        value = getattr(training, name)
        require(value in (None, said), name, value, f"contradicts that of the strategy, {said}")
    rule = "follows the horizon of a simulation; use a rate_schedule with a rate_length"
    require(not training.rate_decay, "rate_decay", training.rate_decay, rule)
    schedule, length = training.rate_schedule, training.rate_length
    rule = "need rate_length, the seconds until the end of the schedule"
    require(schedule == "constant" or length is not None, "rate_schedule", schedule, rule)


def to_json(local: LocalTraining) -> str:
    """The text that calls carry."""
    document: dict[str, object] = {
        "batch_size": local.batch_size,
        "batch_order": local.batch_order,
        "training": local.training.given,
    }
    if local.method is not None and local.method.memory:
        document["method"] = {"name": local.method.name, **local.method.given}
    return json.dumps(document, sort_keys=True)


def from_json(text: str) -> LocalTraining:
    """The local training in a call; anything else is refused in one sentence.

    Only methods that are installed here are accepted: a server cannot name a file.
    """
    try:
        document = json.loads(text)
    except ValueError:
        raise BadInput("training", text, "need JSON") from None
    given = _mapping("training", document)
    for key in given:
        require(key in _KEYS, "training", key, f"unknown; known: {', '.join(_KEYS)}")
    size, order = given.get("batch_size"), given.get("batch_order", "epoch")
    if not isinstance(size, int) or isinstance(size, bool):
        raise BadInput("batch_size", size, "need a whole number")
    if not isinstance(order, str):
        raise BadInput("batch_order", order, "need a word")
    part = TrainingPart(**_mapping("training", given.get("training", {})))  # type: ignore[arg-type]
    method = _method(given["method"]) if "method" in given else None
    return LocalTraining(size, order, part, method)  # type: ignore[arg-type]


def _method(given: object) -> AnyMethod:
    options = dict(_mapping("method", given))
    name = options.pop("name", None)
    known = ", ".join(all_methods())
    if not isinstance(name, str) or name not in all_methods():
        raise BadInput("method", name, f"is not installed on this client; known: {known}")
    return make_method(name, options)


def _mapping(name: str, given: object) -> Mapping[str, object]:
    if not isinstance(given, dict):
        raise BadInput(name, type(given).__name__, "need a table")
    return given
