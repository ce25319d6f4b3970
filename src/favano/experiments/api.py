"""The same from Python: one call with your own network and tensors, or with neither."""

from __future__ import annotations

from pathlib import Path

from torch import nn
from torch.nn import functional

from favano.errors import need
from favano.experiments.presets import resolve
from favano.experiments.progress import Progress
from favano.experiments.result import Interrupted, Result
from favano.experiments.runner import run
from favano.experiments.samples import (
    ModelFactory,
    Pair,
    load_samples,
    named_model,
    own_samples,
)
from favano.experiments.spec import Spec
from favano.training import Loss


def simulate(
    spec: Spec,
    *,
    model: nn.Module | ModelFactory | None = None,
    train: Pair | None = None,
    test: Pair | None = None,
    loss: Loss = functional.cross_entropy,
    data_dir: Path | None = None,
    progress: Progress | None = None,
) -> Result:
    """Run a specification and return its history and final models.

    Args:
        spec: what to run; open keys take the paper's constants.
        model: your network: a module, whose weights are then the initial ones of every seed, or a
            function that makes one, called once a seed; by default the one the data set is
            trained with in the paper.
        train: your samples and labels 0..classes-1; by default the data set of the specification.
        test: the same for evaluation.
        loss: of a batch of outputs and labels.
        data_dir: where the Parquet files of a named data set lie.
        progress: hears how far the run is.

    Ctrl-C raises `Interrupted`, a `KeyboardInterrupt` whose `result` is what was measured.
    """
    spec = resolve(spec)
    need((train is None) == (test is None), "test", "None", "goes with train: give both or neither")
    if train is not None and test is not None:
        need(model is not None, "model", "None", "need a network for your own data")
        samples = own_samples(train, test, spec.device, loss)
    else:
        samples = load_samples(spec, data_dir)
    result = run(spec, samples, model or named_model(spec, samples), progress=progress)
    if result.interrupted:
        raise Interrupted(result)
    if result.error is not None:
        raise result.error
    return result
