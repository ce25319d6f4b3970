"""favano: `favano.simulate` on the same tensors, in the project's own environment.

Equal work: FedAvg, 20 of 100 clients, 20 steps of 128 each, rate 0.5, an IID split of 600 samples
per client; evaluation in the beginning and the end only, both outside the time measured.
"""

from __future__ import annotations

import torch
from common import (
    BATCH,
    CLASSES,
    CLIENTS,
    HIDDEN,
    INPUTS,
    LOCAL_STEPS,
    RATE,
    SELECTED,
    STEPS_PER_ROUND,
    Meter,
    samples,
    seconds_argument,
)
from torch import nn

import favano

ROUND_TIME = 3 + 4 + 2 * LOCAL_STEPS  # simulated, when every client is a fast one
MOST_ROUNDS_PER_SECOND = 100


class TimeIsOver(Exception):
    """Ends a run early."""


class Watch:
    """Progress that feeds the meter."""

    def __init__(self, meter: Meter) -> None:
        self.meter, self.steps = meter, 0

    def begin(self, steps: int) -> None:
        """Nothing."""

    def advance(self, label: str, steps: int, time: float) -> None:
        """Count whole rounds."""
        before, self.steps = self.steps // STEPS_PER_ROUND, self.steps + steps
        rounds = self.steps // STEPS_PER_ROUND - before
        if rounds and self.meter.over(rounds):
            raise TimeIsOver

    def end(self) -> None:
        """Nothing."""


def simulate(seconds: float) -> None:
    """A run that is longer than the time to measure, and ended by it."""
    images, labels = (torch.from_numpy(part).flatten(0, 1) for part in samples())
    net = nn.Sequential(nn.Linear(INPUTS, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES))
    meter, few = Meter("favano", seconds), slice(1000)
    train, test = (images, labels), (images[few], labels[few])
    try:
        favano.simulate(
            "fedavg",
            favano.Problem(net, train, test, split="iid", batch_size=BATCH),
            favano.Fleet.two_speeds(CLIENTS, fast=1.0),
            progress=Watch(meter),
            selected=SELECTED,
            local_steps=LOCAL_STEPS,
            learning_rate=RATE,
            horizon=ROUND_TIME * MOST_ROUNDS_PER_SECOND * (seconds + 5),
            evaluate_every=10**9,
        )
        raise SystemExit("the run ended before the time was over")
    except TimeIsOver:
        meter.report("favano", "torch")


if __name__ == "__main__":
    simulate(seconds_argument())
