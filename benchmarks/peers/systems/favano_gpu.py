"""favano on a GPU: whole runs of FedAvg, by the public names of whichever release is imported.

Equal work: FedAvg, 20 of 100 clients of one speed, 20 steps of 128 each, on random images;
evaluation in the beginning and the end only. The rate is that of the middle half of the steps, of a
run that takes about the time to measure.
"""

from __future__ import annotations

import sys
from pathlib import Path

from common import BATCH, CLIENTS, LOCAL_STEPS, RATE, SELECTED, gpu_arguments, print_rate

sys.path.append(str(Path(__file__).parents[2]))
from networks import NETWORKS, random_images
from work import Stopwatch

import favano

ROUND = 3 + 4 + 2 * LOCAL_STEPS  # simulated time of a round when every client is a fast one
TRIAL = 3  # rounds, which also compile and capture what is needed


def main() -> None:
    """A trial that says how far a run comes in the time to measure, and that run."""
    asked = gpu_arguments()
    inputs, make = NETWORKS[asked.network]
    train, test = random_images(inputs, 60_000), random_images(inputs, 100)
    problem = favano.Problem(make, train, test, split="iid", batch_size=BATCH)
    fleet = favano.Fleet.two_speeds(CLIENTS, fast=1.0)
    rounds, watch = TRIAL, Stopwatch()
    while rounds == TRIAL or watch.running < asked.seconds / 2:
        if watch.times:
            faster = asked.seconds / max(watch.running, 0.02)
            rounds = int(rounds * min(max(2.0, faster), 20.0)) + 1
        watch, horizon = Stopwatch(), float(ROUND * rounds)
        favano.simulate(
            "fedavg",
            problem,
            fleet,
            progress=watch,
            selected=SELECTED,
            local_steps=LOCAL_STEPS,
            learning_rate=RATE,
            horizon=horizon,
            evaluate_every=horizon,
            seeds=asked.runs,
            device=asked.device,
            non_finite="skip",
        )
    print_rate("favano", asked, watch.steady_rate, "torch")


if __name__ == "__main__":
    main()
