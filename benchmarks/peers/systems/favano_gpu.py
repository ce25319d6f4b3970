"""favano on a GPU: whole runs of FedAvg, as `favano bench` measures them.

Equal work: FedAvg, 20 of 100 clients of one speed, 20 steps of 128 each, on the synthetic data of
`favano bench`; evaluation in the beginning and the end only. The rate is that of the middle half
of the steps, of a run that takes about the time to measure.
"""

from __future__ import annotations

import sys
from pathlib import Path

from common import LOCAL_STEPS, RATE, SELECTED, gpu_arguments, print_rate

sys.path.append(str(Path(__file__).parents[2]))
from other_networks import NETWORKS

from favano.run.runner import run_together
from favano.run.samples import named_model
from favano.specification.presets import resolve
from favano.specification.spec import make_spec
from favano.studies.bench import bench_samples
from favano.studies.stopwatch import BenchStopwatch

OURS = {
    "perceptron": {"dataset": "mnist"},
    "resnet20": {"dataset": "cifar10", "model": "resnet20", "batch_size": "128"},
}
ROUND = 3 + 4 + 2 * LOCAL_STEPS  # simulated time of a round when every client is a fast one
TRIAL = 3  # rounds, which also compile and capture what is needed


def main() -> None:
    """A trial that says how far a run comes in the time to measure, and that run."""
    asked = gpu_arguments()
    keys = {
        **OURS.get(asked.network, {"dataset": "mnist"}),
        **{"algorithm": "fedavg", "seeds": str(asked.runs), "split": "iid"},
        **{"fast_fraction": "1", "selected": str(SELECTED), "local_steps": str(LOCAL_STEPS)},
        **{"learning_rate": str(RATE), "device": asked.device, "non_finite": "skip"},
    }
    rounds, watch = TRIAL, BenchStopwatch()
    while rounds == TRIAL or watch.seconds < asked.seconds / 2:
        if watch.updates:
            faster = asked.seconds / max(watch.running, 0.02)
            rounds = int(rounds * min(max(2.0, faster), 20.0)) + 1
        horizon = str(ROUND * rounds)
        spec = resolve(make_spec({**keys, "horizon": horizon, "evaluate_every": horizon}))
        samples = bench_samples(spec, True)
        model = NETWORKS.get(asked.network) or named_model(spec, samples)
        watch = BenchStopwatch()
        run_together([spec], samples, model, progress=watch, on_steps=watch.made, audits=False)
    print_rate("favano", asked, watch.steady_rate, "torch")


if __name__ == "__main__":
    main()
