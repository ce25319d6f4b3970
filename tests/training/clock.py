"""Time that a test sets: nothing here depends on how fast or how busy a machine is."""

from __future__ import annotations

import pytest
from torch import Tensor

from favano.training import GradientTrace, Loss, gradient_trace


class Clock:
    """A processor's time that only goes on when somebody works; a look at it may take time too."""

    def __init__(self, look: float = 0.0) -> None:
        self.now, self._look = 0.0, look

    def __call__(self) -> float:
        self.now += self._look
        return self.now


def slow(loss: Loss, clock: Clock, seconds: float) -> Loss:
    """A loss that takes so long for autograd; a trace of it does not call it again."""

    def timed(outputs: Tensor, labels: Tensor) -> Tensor:
        clock.now += seconds
        return loss(outputs, labels)

    return timed


def trace_all(patch: pytest.MonkeyPatch, fewest_each: int = 0) -> None:
    """Trace every run however short, for lengths of so many steps, whatever time it takes."""
    patch.setattr(gradient_trace, "FEWEST", 0)
    patch.setattr(gradient_trace, "FEWEST_EACH", fewest_each)
    patch.setattr(GradientTrace, "_is_heavy", lambda *_: False)
    patch.setattr(GradientTrace, "_pays", lambda *_: True)
