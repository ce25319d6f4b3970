"""A federation again, in the simulator: the same contacts, the same steps, the same model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from favano.aggregation import Aggregator
from favano.engine import PlainLoop
from favano.methods import AnyMethod, State
from favano.methods.method import Expected
from favano.methods.robust import Robust
from favano.methods.server_optimiser import ServerOptimiser
from favano.schedule.contact_trace import ContactTrace
from favano.training import LoopTrainer
from favano.types import Ints, Vector


@dataclass(frozen=True)
class Divergence:
    """How far a federation's model is from the one that the simulator makes of its trace."""

    largest: float  # difference of two numbers
    numbers: int  # that differ
    equal: bool  # to the bit


def replay(
    trace: ContactTrace,
    method: AnyMethod,  # bound as in the federation
    trainer: LoopTrainer,  # of all clients' data
    initial: Vector,
    *,
    server: ServerOptimiser | None = None,
    robust: Robust | None = None,
) -> Vector:
    """The model that the simulator makes of a trace."""

    def expected(jobs: Ints) -> Expected:
        return Expected(trace.positive[jobs], trace.mean[jobs])

    rule, layout = trainer.rule, trainer.model.layout
    aggregator: Aggregator[State] = Aggregator(
        method,
        trace.schedule,
        layout,
        trace.rate,
        initial,
        kept=rule.optimiser.kept,
        server=server,
        robust=robust,
        expected=expected,
    )
    *_, last = PlainLoop(aggregator, trainer).moments()
    return last.server


def divergence(lived: Vector, simulated: Vector) -> Divergence:
    """Compare two models."""
    one, two = (model.detach().cpu().numpy() for model in (lived, simulated))
    same = one.dtype == two.dtype and one.tobytes() == two.tobytes()
    distance = np.abs(one.astype(np.float64) - two)
    return Divergence(float(distance.max(initial=0.0)), int((one != two).sum()), same)
