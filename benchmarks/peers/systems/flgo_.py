"""FLGo: its `fedavg` on a benchmark generated from a file, clients in sequence.

Equal work: `num_steps` 20 and `drop_last`, so that all batches of FLGo's shuffling DataLoader have
128 samples; an IID split into 100 clients of 600, none held out; `proportion` 0.2 with uniform
sampling; no evaluation, no progress bar. FLGo's own default is one thread; `load_mode` `mem` keeps
each client's samples in memory. Its parallel modes, which start a pool every round, are left out:
with threads it was slower in three of four short trials on two busy cores.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
from pathlib import Path
from types import ModuleType

import torch
from common import (
    BATCH,
    CLIENTS,
    LOCAL_STEPS,
    RATE,
    SELECTED,
    Meter,
    seconds_argument,
)

CONFIG = """
import torch
from common import CLASSES, HIDDEN, INPUTS, samples
from torch import nn

images, labels = samples()
train_data = torch.utils.data.TensorDataset(
    torch.from_numpy(images).flatten(0, 1), torch.from_numpy(labels).flatten()
)


def get_model():
    return nn.Sequential(nn.Linear(INPUTS, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES))
"""


def import_flgo() -> ModuleType:
    """FLGo, also where torchvision was compiled for another torch, which nothing here uses."""
    try:
        import torchvision  # noqa: F401
    except RuntimeError:
        for name in [name for name in sys.modules if name.startswith("torchvision")]:
            del sys.modules[name]
        signature = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
        torch.library.define("torchvision::nms", signature)
    return importlib.import_module("flgo")


def main() -> None:
    """Rounds of federated averaging until the time is over.

    FLGo's subset lacks the `__getitems__` that PyTorch now asks of it.
    """
    seconds = seconds_argument()
    flgo = import_flgo()
    fedavg = importlib.import_module("flgo.algorithm.fedavg")
    partition = importlib.import_module("flgo.benchmark.toolkits.partition")
    pipe = importlib.import_module("flgo.benchmark.toolkits.cv.classification").FromDatasetPipe
    pipe.TaskDataset.__getitems__ = lambda self, places: [self[place] for place in places]
    sys.path.append("")  # the benchmark is written to the working directory and imported from it
    Path("config.py").write_text(CONFIG)
    name = flgo.gen_benchmark_from_file("peers_benchmark", "config.py", data_type="cv")
    benchmark = importlib.import_module(name)
    benchmark.visualize = lambda *arguments: None  # its drawing of the split takes many minutes
    flgo.gen_task_by_(benchmark, partition.IIDPartitioner(num_clients=CLIENTS), "task")
    option = {
        "num_rounds": 10**9,
        "proportion": SELECTED / CLIENTS,
        "sample": "uniform",
        "aggregate": "uniform",
        "num_steps": LOCAL_STEPS,
        "batch_size": BATCH,
        "learning_rate": RATE,
        "train_holdout": 0.0,
        "eval_interval": -1,
        "drop_last": True,
        "load_mode": "mem",
        "no_tqdm": True,
        "no_log_console": True,
    }
    runner = flgo.init("task", fedavg, option=option)
    meter = Meter("flgo", seconds)
    runner.register_exit_condition(lambda server: server.current_round > 1 and meter.over())
    runner.run()
    meter.report("flgo", "torch")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        main()
