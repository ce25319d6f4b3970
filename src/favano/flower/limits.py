"""What the owner of a node lets a server ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from favano.data import BatchStream
from favano.errors import BadInput, require
from favano.flower.local_training import LocalTraining
from favano.flower.wire import Call

_WORDS = ("least-batch", "least-steps-apart", "methods")  # in a SuperNode's configuration


@dataclass(frozen=True)
class Limits:
    """What a call may ask for; others are refused before anything is trained.

    An update tells the gradients of its steps: one step on one sample tells the sample. By default,
    every client update is of four different samples or more.

    Args:
        least_batch: fewest samples of a batch, and fewest different ones behind a client update.
        least_steps_apart: fewest steps between the model that comes and the one that goes back,
            unless they are the same.
        methods: of the server, by name; none: any.
    """

    least_batch: int = 4
    least_steps_apart: int = 1
    methods: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("least_batch", "least_steps_apart"):
            require(getattr(self, name) >= 1, name, getattr(self, name), "need 1 or more")

    def check(self, call: Call, local: LocalTraining, samples: int) -> None:
        """Refuse a call to a client with so many samples."""
        allowed = not self.methods or call.method in self.methods
        rule = f"this node takes part in {', '.join(self.methods)} only"
        require(allowed, "method", call.method, rule)
        rule = f"this node needs {self.least_batch} or more (least_batch)"
        require(local.batch_size >= self.least_batch, "batch_size", local.batch_size, rule)
        rule = f"this node needs {self.least_steps_apart} or more (least_steps_apart)"
        require(call.steps == 0 or call.steps >= self.least_steps_apart, "steps", call.steps, rule)
        rule = f"this node answers with {self.least_batch} or more (least_batch)"
        require(samples >= self.least_batch, "samples", samples, rule)

    def least_steps(self, call: Call, batches: BatchStream) -> int:
        """The fewest steps that an update may be of, if it is of any; or the call is refused."""
        seen = set[int]()
        for steps in range(1, call.steps + 1):
            seen.update(batches.indices(0, call.first_step + steps - 1).tolist())
            if len(seen) >= self.least_batch and steps >= self.least_steps_apart:
                return steps
        rule = (
            f"its {call.steps} steps see {len(seen)} samples, and this node needs "
            f"{self.least_batch} or more (least_batch); batch_order=continuous has no short batches"
        )
        require(call.steps == 0, "first_step", call.first_step, rule)
        return 0

    def words(self) -> dict[str, int | str]:
        """As a SuperNode's configuration has them."""
        values = self.least_batch, self.least_steps_apart, ",".join(self.methods)
        return dict(zip(_WORDS, values, strict=True))

    @staticmethod
    def from_words(config: Mapping[str, object]) -> Limits:
        """The inverse of `words`; what is not there has its default."""
        usual = Limits().words()
        batch, apart, names = (config.get(word, value) for word, value in usual.items())
        if not (isinstance(batch, int) and isinstance(apart, int) and isinstance(names, str)):
            raise BadInput("node-config", ", ".join(_WORDS), "need two whole numbers and a text")
        return Limits(batch, apart, method_names(names))


def method_names(text: str) -> tuple[str, ...]:
    """Names that are separated by commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())
