"""pfl-research: `FederatedAveraging` over `SimulatedBackend` with a PyTorch model.

Equal work: pfl counts epochs and stops at the end of the data, so each client's 600 samples are
repeated to 2,560, and one epoch of batches of 128 is 20 steps. Batches are fixed slices (pfl does
not shuffle), which saves it the gathering of a batch that the others pay for. Local SGD, central
SGD with rate 1, evaluation in the first iteration only, which is warm-up. One process per core by
`torchrun`, which gives each one thread and was the faster way here: the script starts itself again
that way.
"""

from __future__ import annotations

import os
import sys

import numpy as np
import torch
from common import (
    BATCH,
    CLASSES,
    CLIENTS,
    HIDDEN,
    INPUTS,
    RATE,
    SELECTED,
    Meter,
    one_epoch,
    samples,
    seconds_argument,
)
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam.base import NNTrainHyperParams
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel
from torch import Tensor, distributed, nn
from torch.nn import functional


class Perceptron(nn.Sequential):
    """The network with the two methods pfl asks for."""

    def __init__(self) -> None:
        super().__init__(nn.Linear(INPUTS, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES))

    def loss(self, images: Tensor, labels: Tensor) -> Tensor:
        """Mean cross-entropy of a batch."""
        return functional.cross_entropy(self(images), labels)

    @torch.no_grad()
    def metrics(self, images: Tensor, labels: Tensor) -> dict[str, Weighted]:
        """Summed cross-entropy, with its number of samples."""
        total = functional.cross_entropy(self(images), labels, reduction="sum")
        return {"loss": Weighted(total.item(), len(labels))}


class Stop(TrainingProcessCallback):
    """Ends the run in all processes when the first one's time is over."""

    def __init__(self, meter: Meter) -> None:
        self.meter = meter

    def after_central_iteration(
        self, aggregate_metrics: Metrics, model: PyTorchModel, *, central_iteration: int
    ) -> tuple[bool, Metrics]:
        """Agree on whether to stop."""
        flag = torch.tensor([distributed.get_rank() == 0 and self.meter.over()])
        distributed.broadcast(flag, src=0)
        return bool(flag), Metrics()


def main() -> None:
    """Rounds of federated averaging until the time is over."""
    seconds = seconds_argument()
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002 - pfl draws users from it and needs all processes to agree
    network = Perceptron()
    model = PyTorchModel(
        model=network,
        local_optimizer_create=torch.optim.SGD,
        central_optimizer=torch.optim.SGD(network.parameters(), lr=1.0),
    )
    images, labels = samples()
    users = {
        client: [torch.from_numpy(one_epoch(part[client])) for part in (images, labels)]
        for client in range(CLIENTS)
    }
    data = FederatedDataset.from_slices(users, get_user_sampler("random", list(users)))
    meter = Meter("pfl", seconds)
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=10**9,
            evaluation_frequency=10**9,
            train_cohort_size=SELECTED,
            val_cohort_size=None,
        ),
        SimulatedBackend(training_data=data, val_data=data),
        model,
        NNTrainHyperParams(local_num_epochs=1, local_learning_rate=RATE, local_batch_size=BATCH),
        callbacks=[Stop(meter)],
        send_metrics_to_platform=False,
    )
    if distributed.get_rank() == 0:
        meter.report("pfl", "torch")
    distributed.destroy_process_group()


if __name__ == "__main__":
    if "RANK" in os.environ:
        main()
    else:
        launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node"]
        cores = str(len(os.sched_getaffinity(0)))
        os.execv(sys.executable, [sys.executable, *launcher, cores, __file__, *sys.argv[1:]])
