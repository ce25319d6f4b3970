"""What a server transform is: options, a state, and one or two pure functions."""

from __future__ import annotations

from typing import ClassVar, Generic, TypeVar, cast

from favano.errors import require
from favano.methods.method import ClientUpdates
from favano.options import Options, refuse_unread, text_of
from favano.types import Stack, Vector

T = TypeVar("T")


class ServerTransform(Options, Generic[T]):
    """One stage of what the server makes of client updates, whatever the method.

    The transforms of a run are a chain, and the method is in its middle:

        c_i <- deltas(c_i)    by each transform in order; the method makes its step D of all c_i
        D <- step(D)          by each transform in order; the new server model is w + D

    c_i = k a_i (end_i - start_i) is the delta of client i of k as it is applied: a_i is what the
    method multiplies it by, after reweighting and staleness, so that D is the mean of all c_i. Of
    FedAvg it is the delta itself.

    A transform is one class in one file, with its options and at least one of `deltas` and `step`.
    They are pure: same inputs, same outputs, inputs untouched. What a transform remembers is its
    state: tensors, numbers, and tuples or named tuples of them, which checkpoints keep.

    Class attributes: `name` in texts (by default that of the class), and `fewest`, the clients per
    update that it needs.
    """

    name: ClassVar[str] = ""
    fewest: ClassVar[int] = 1
    import_path: ClassVar[str] = ""  # `file.py:Name`, where it was read from a file

    @classmethod
    def declare(cls) -> None:
        """Name the transform; one that does nothing is refused."""
        if cls.__module__ == __name__:
            return
        cls.name = cls.__dict__.get("name") or cls.__name__.lower()
        refuse_unread(cls, ServerTransform, "server", ("check", "init", "deltas", "step"))
        useful = cls.has("deltas") or cls.has("step")
        require(useful, "server", cls.name, "has neither deltas nor step; define one of them")

    def init(self, model: Vector) -> T:
        """State before the first update; `model` is w_0, (P,)."""
        return cast(T, ())

    def deltas(self, state: T, deltas: Stack, updates: ClientUpdates) -> tuple[Stack, T]:
        """What the method gets instead of the clients' deltas, and the next state.

        Args:
            state: as `init` or the last update left it.
            deltas: (k, P), all c_i. Clients without a step or a weight have no say, and no row.
            updates: whose they are, with (k,) client, steps and staleness.
        """
        return deltas, state

    def step(self, state: T, step: Vector) -> tuple[Vector, T]:
        """What is added to the server model instead of the step D, (P,), and the next state."""
        return step, state

    @classmethod
    def has(cls, hook: str) -> bool:
        """Whether a transform has a hook of its own."""
        return getattr(cls, hook) is not getattr(ServerTransform, hook)

    def __str__(self) -> str:
        """The transform as files and flags have it: `adam:rate=0.01:momentum=0.9...`."""
        return text_of(self, self.import_path or self.name)
